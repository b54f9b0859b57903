"""The one thread that keeps the leases of a process alive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import override_settings

from hitl_django import services, testing
from hitl_django.checkpoints import ThreadKey
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.runtime import RunControl
from hitl_django.graph_registry import registry
from hitl_django.leases import Lease, acquire, renewal
from hitl_django.models import Run
from hitl_django.notifications import EventLog
from hitl_django.worker import runner
from tests import graphs


class Renewals:
    """What was renewed, by thread; a test can wait for the next."""

    def __init__(self) -> None:
        self.held, self.seen, self.again = True, [], threading.Event()

    def renew(self, lease: Lease) -> bool:
        self.seen.append((lease.thread.pk, threading.get_ident()))
        self.again.set()
        return self.held


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Renewals]:
    renewal._reset_after_fork()
    made = Renewals()
    monkeypatch.setattr(acquire, "renew", made.renew)
    with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 0.01}):
        yield made


def a_lease(pk: int) -> Lease:
    run = uuid4()
    return Lease(run, "graph", ThreadKey(pk, str(pk)), 1, EventLog(run, "graph", "", 0))


def test_one_thread_renews_all_leases_and_ends_when_there_are_none(renewals: Renewals) -> None:
    with renewal.keep_renewed(a_lease(1), RunControl(), None):
        thread = renewal._renewals._thread
        with renewal.keep_renewed(a_lease(2), RunControl(), None):
            while {pk for pk, _ in renewals.seen} != {1, 2}:
                assert renewals.again.wait(60)
                renewals.again.clear()
    assert thread is not None
    assert {ident for _, ident in renewals.seen} == {thread.ident}
    thread.join(60)
    assert not thread.is_alive()
    renewals.again.clear()
    with renewal.keep_renewed(a_lease(3), RunControl(), None):
        assert renewals.again.wait(60)  # another thread has taken over


def test_nothing_is_renewed_once_a_run_has_ended(renewals: Renewals) -> None:
    with renewal.keep_renewed(a_lease(1), RunControl(), None):
        assert renewals.again.wait(60)
    count = len(renewals.seen)
    with renewal.keep_renewed(a_lease(2), RunControl(), None):
        renewals.again.clear()
        assert renewals.again.wait(60)
    assert {pk for pk, _ in renewals.seen[count:]} == {2}


def test_a_run_whose_lease_is_lost_begins_no_other_step(renewals: Renewals) -> None:
    renewals.held, control = False, RunControl()
    with renewal.keep_renewed(a_lease(1), control, None):
        while not control.drain_requested:
            assert renewals.again.wait(60)
    assert control.drain_reason == "lease lost"


def test_a_forked_process_begins_without_the_thread(renewals: Renewals) -> None:
    with renewal.keep_renewed(a_lease(1), RunControl(), None):
        before = renewal._renewals
        renewal._reset_after_fork()  # what the fork calls in the child
        assert renewal._renewals is not before
        assert renewal._renewals._thread is None


def test_a_thread_that_could_not_be_started_is_started_for_the_next_run(
    renewals: Renewals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError), renewal.keep_renewed(a_lease(1), RunControl(), None):
            pass
    with renewal.keep_renewed(a_lease(2), RunControl(), None):
        assert renewals.again.wait(60)
    assert {pk for pk, _ in renewals.seen} == {2}


def test_a_connection_that_can_not_be_closed_ends_no_renewing(
    renewals: Renewals, monkeypatch: pytest.MonkeyPatch
) -> None:
    closings: list[int] = []

    def refuse() -> None:
        closings.append(1)
        raise OperationalError("the server has gone away")

    monkeypatch.setattr(renewal.connections, "close_all", refuse)
    with renewal.keep_renewed(a_lease(1), RunControl(), None):
        while len(closings) < 2:
            assert renewals.again.wait(60)
            renewals.again.clear()


def test_a_run_is_asked_to_stop_when_its_slice_is_used_up_and_not_before(
    renewals: Renewals,
) -> None:
    short, long = RunControl(), RunControl()
    with (
        renewal.keep_renewed(a_lease(1), short, 0.01),
        renewal.keep_renewed(a_lease(2), long, 3600),
    ):
        while not (short.drain_requested and 2 in {pk for pk, _ in renewals.seen}):
            assert renewals.again.wait(60)
            renewals.again.clear()
    assert short.drain_reason == "time slice used up"
    assert not long.drain_requested


def test_a_run_that_has_ended_is_not_looked_after_any_more(renewals: Renewals) -> None:
    control = RunControl()
    run = renewal._RenewedRun(a_lease(1), control, 0)
    run.beat, run.ended = 0, True
    run.keep_up()
    assert (renewals.seen, control.drain_requested) == ([], False)


def test_a_slice_that_ends_renews_no_lease(renewals: Renewals) -> None:
    control = RunControl()
    run = renewal._RenewedRun(a_lease(1), control, 0)
    run.beat = float("inf")
    run.keep_up()
    assert (renewals.seen, control.drain_requested) == ([], True)
    assert run.next_due() == float("inf")


def test_a_run_that_is_due_sooner_than_the_others_wakes_the_thread(renewals: Renewals) -> None:
    asked = threading.Event()

    class Control(RunControl):
        def request_drain(self, reason: str = "shutdown") -> None:
            super().request_drain(reason)
            asked.set()

    rarely = override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 3600})
    with rarely, renewal.keep_renewed(a_lease(1), RunControl(), None):
        while not renewal._renewals._wakes:  # until it sleeps
            asked.wait(0.001)
        with renewal.keep_renewed(a_lease(2), Control(), 0.01):
            assert asked.wait(20)


@pytest.mark.parametrize("signal", [SystemExit, KeyboardInterrupt])
def test_the_end_of_the_process_is_a_crash_not_a_failure(
    db: None, signal: type[BaseException]
) -> None:
    def die(state: Any) -> Any:
        raise signal

    graph = StateGraph(graphs.Count).add_node("node", die)
    registry.register("die")(lambda: graph.add_edge("__start__", "node"))
    try:
        with testing.inline(), pytest.raises(signal):
            runner.advance(str(services.start("die", {"count": 1}).id))
    finally:
        registry.unregister("die")
    run = Run.objects.select_related("thread").get()
    assert (run.state, run.error) == ("running", "")
    assert run.thread.lease_until is not None
    assert not renewal._renewals._runs
