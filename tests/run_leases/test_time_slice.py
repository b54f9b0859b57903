"""Runs of workers, from the perspective of the OS thread that renews leases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import override_settings

from hitl_django.engine.task.runtime import RunControl
from hitl_django.leases import ThreadLease
from hitl_django.leases.renewal import LeaseRenewer
from hitl_django.run_events import EventLog
from hitl_django.run_leases import RunLease, time_slice


class Renewed:
    """Stores which OS thread renewed the lease. A test can wait for the next renewal."""

    def __init__(self) -> None:
        self.held, self.seen, self.again = True, [], threading.Event()

    def renew(self, lease: ThreadLease) -> bool:
        self.seen.append((lease.pk, threading.get_ident()))
        self.again.set()
        return self.held


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Renewed]:
    monkeypatch.setattr(time_slice, "renewals", LeaseRenewer())
    made = Renewed()
    monkeypatch.setattr(ThreadLease, "renew", lambda lease: made.renew(lease))
    with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 0.01}):
        yield made


def a_lease(pk: int) -> RunLease:
    run = uuid4()
    return RunLease(
        run, "graph", ThreadLease(pk, str(pk), 1, using="default"), 1, EventLog(run, "graph", "", 0)
    )


def test_lease_of_ended_run_is_not_renewed(renewed: Renewed) -> None:
    with time_slice.keep_renewed(a_lease(1), RunControl(), None):
        assert renewed.again.wait(60)
    count = len(renewed.seen)
    with time_slice.keep_renewed(a_lease(2), RunControl(), None):
        renewed.again.clear()
        assert renewed.again.wait(60)
    assert {pk for pk, _ in renewed.seen[count:]} == {2}


def test_lost_lease_makes_run_control_request_drain(renewed: Renewed) -> None:
    renewed.held, control = False, RunControl()
    with time_slice.keep_renewed(a_lease(1), control, None):
        while not control.drain_requested:
            assert renewed.again.wait(60)
    assert control.drain_reason == "lease lost"


def test_lease_renewal_os_thread_that_failed_to_start_is_started_for_next_run(
    renewed: Renewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError), time_slice.keep_renewed(a_lease(1), RunControl(), None):
            pass
    with time_slice.keep_renewed(a_lease(2), RunControl(), None):
        assert renewed.again.wait(60)
    assert {pk for pk, _ in renewed.seen} == {2}


def test_run_control_requests_drain_only_for_run_whose_time_slice_ended(
    renewed: Renewed,
) -> None:
    short, long = RunControl(), RunControl()
    with (
        time_slice.keep_renewed(a_lease(1), short, 0.01),
        time_slice.keep_renewed(a_lease(2), long, 3600),
    ):
        while not (short.drain_requested and 2 in {pk for pk, _ in renewed.seen}):
            assert renewed.again.wait(60)
            renewed.again.clear()
    assert short.drain_reason == "time slice used up"
    assert not long.drain_requested


def test_run_with_ended_time_slice_is_drained_without_renewing_its_lease(renewed: Renewed) -> None:
    control = RunControl()
    run = time_slice.RunRenewal(a_lease(1), control, 0)
    run.beat = float("inf")
    run.renew_if_due()
    assert (renewed.seen, control.drain_requested) == ([], True)
    assert run.next_due() == float("inf")
