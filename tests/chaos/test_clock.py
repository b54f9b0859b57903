"""Workers with wrong clocks: leases use the database's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django import run_leases, services
from hitl_django.models import Run, Thread
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep
from tests import processes

from . import invariants, recovery
from .graphs import EMPTY, Effects, end_of

pytestmark = [
    pytest.mark.race,
    pytest.mark.django_db(transaction=True),
    pytest.mark.promise("P10"),
]

HOUR = 3600
#: Far less than an hour, but long enough that no lease expires during the test on a slow machine.
LEASE = 1200


@pytest.fixture(autouse=True)
def long_leases(settings: Any) -> None:
    settings.HITL = {"LEASE_SECONDS": LEASE}


def set_clocks(by: int) -> None:
    ticks, runs, now = time.time, time.monotonic, timezone.now
    time.time = lambda: ticks() + by
    time.monotonic = lambda: runs() + by
    timezone.now = lambda: now() + timedelta(seconds=by)  # type: ignore[method-assign]


def try_to_steal(by: int, runs: list[str], told: Any) -> None:
    set_clocks(by)
    stolen = [run for run in runs if run_leases.claim(run) is not None]
    # The sweep must not treat a live lease as expired either.
    Run.objects.update(last_message_at=Now() - timedelta(hours=2))
    sweep()
    recovery.deliver()
    told.send(stolen)


def hold(by: int, runs: list[str], told: Any) -> None:
    set_clocks(by)
    told.send([run for run in runs if run_leases.claim(run) is None])


def work(by: int, run: str, told: Any) -> None:
    set_clocks(by)
    runner.advance(run)
    while recovery.answer([run]):
        runner.advance(run)
    told.send(None)


def in_a_process(act: Callable[..., None], *args: Any) -> Any:
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    process = processes.start(act, *args, theirs)
    assert ours.poll(processes.PATIENCE)
    process.join(processes.PATIENCE)
    return ours.recv()


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_worker_with_wrong_clock_claims_no_run_with_unexpired_lease(
    by: int, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    runs = [str(services.start("chaos line", EMPTY).id) for _ in range(amount(10, 100))]
    for run in runs:
        assert run_leases.claim(run) is not None
    assert in_a_process(try_to_steal, by, runs) == []
    assert set(Thread.objects.values_list("epoch", flat=True)) == {1}
    assert set(Run.objects.values_list("state", "step")) == {("running", -1)}
    figures(f"0 of {len(runs)} leases stolen by a clock that is {by:+} s off")


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_lease_of_worker_with_wrong_clock_is_unexpired_for_other_workers(
    by: int, amount: Callable[[int, int], int]
) -> None:
    runs = [str(services.start("chaos line", EMPTY).id) for _ in range(amount(10, 100))]
    assert in_a_process(hold, by, runs) == []
    for run in runs:
        assert run_leases.claim(run) is None
    left = Thread.objects.annotate(left=F("lease_until") - Now()).values_list("left", flat=True)
    assert timedelta(0) < min(left) <= max(left) <= timedelta(seconds=LEASE)


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_worker_with_wrong_clock_executes_run_to_its_end(by: int, effects: Effects) -> None:
    run = services.start("chaos line", EMPTY).id
    in_a_process(work, by, str(run))
    assert invariants.faults() == []
    (record,) = invariants.records()
    state = invariants.values_of(record, invariants.head_of(record))
    assert (Run.objects.get().state, state["total"]) == ("succeeded", end_of("chaos line")[0])
