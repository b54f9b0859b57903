"""Runs of workers that have ended without releasing their leases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from django.db.models import F

from hitl_django import run_leases, services, testing
from hitl_django.models import Run, Thread
from hitl_django.run_leases import RunLease
from hitl_django.worker.sweeper import sweep
from tests.leases.ended import name_ended_owner

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are identified only on Linux"
)

Advance = Callable[[], int]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def lease(advance: Advance) -> RunLease:
    """Return the lease of a worker on a run whose message was received."""
    lease = run_leases.claim(services.start("steps", {"log": []}).id)
    assert lease is not None
    testing.run_ids.clear()
    return lease


@pytest.mark.promise("P7")
def test_sweep_requeues_run_of_ended_worker_before_its_lease_expires(
    advance: Advance, lease: RunLease
) -> None:
    Thread.objects.update(lease_owner=name_ended_owner())
    assert sweep() == [lease.run_id]
    assert Run.objects.get().state == "queued"
    assert sweep() == []
    assert Thread.objects.get().attempts == 1  # The attempt that ended the worker is counted.
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P10")
def test_releasing_leases_of_ended_workers_leaves_leases_of_running_processes_unchanged(
    lease: RunLease,
) -> None:
    assert run_leases.release_ended_workers() == []
    assert lease.thread.renew()


@pytest.mark.promise("P10")
def test_lease_taken_since_the_ended_worker_was_found_is_not_released(lease: RunLease) -> None:
    owner = name_ended_owner()
    Thread.objects.update(lease_owner=owner)

    def take(name: str) -> bool:
        Thread.objects.update(epoch=F("epoch") + 1)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hitl_django.run_leases.ended_workers.has_ended", take)
        assert run_leases.release_ended_workers() == []
    thread = Thread.objects.get()
    assert (thread.lease_owner, thread.lease_until is None) == (owner, False)
    assert testing.run_ids == []
