"""advance: outcomes of runs and failures of workers."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import interrupt, once, run_leases, services, signals, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import SaverFailed
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.checkpoint import Commit, Outcome, PendingInterrupt, TaskWrites
from hitl_django.engine.task.node_api import get_runtime
from hitl_django.engine.types import Interrupt as Asked
from hitl_django.engine.types import RetryPolicy
from hitl_django.errors import LeaseLostError, StaleInterruptError
from hitl_django.graph_registry import registry
from hitl_django.leases import ThreadLease
from hitl_django.models import ChannelBlob, Checkpoint, Interrupt, Run, Thread
from hitl_django.run_leases import RunFence, time_slice, transitions
from hitl_django.task_queue import dispatcher
from hitl_django.worker import runner
from tests import graphs

Advance = Callable[[], int]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def made() -> Iterator[Callable[..., None]]:
    """Register a graph of one node for one test."""
    names: list[str] = []

    def make(name: str, node: Callable[[Any], Any]) -> None:
        names.append(name)
        graph = StateGraph(graphs.Count).add_node("node", node)
        registry.register(name)(
            lambda: graph.add_edge("__start__", "node").add_edge("node", "__end__")
        )

    yield make
    for name in names:
        registry.unregister(name)


@pytest.fixture
def deployed() -> Iterator[Callable[..., None]]:
    """Register a graph for one test. The graph begins with its node "a"."""
    names: list[str] = []

    def deploy(name: str, graph: StateGraph) -> None:
        names.append(name)
        registry.register(name)(lambda: graph.add_edge("__start__", "a"))

    yield deploy
    for name in names:
        registry.unregister(name)


def run_of(info: services.RunInfo) -> Run:
    return Run.objects.select_related("thread").get(pk=info.id)


def lose_lease() -> None:
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))


def test_worker_executes_run_to_its_end_and_releases_the_lease(advance: Advance) -> None:
    info = services.start("steps", {"log": ["in"]})
    assert advance() == 1
    run = run_of(info)
    assert (run.state, run.step, run.error) == ("succeeded", 5, "")
    assert run.finished_at is not None
    thread = run.thread
    assert (thread.lease_until, thread.lease_owner, thread.attempts) == (None, "", 0)
    assert thread.epoch == 1
    assert set(Checkpoint.objects.values_list("epoch", flat=True)) == {0, 1}


@pytest.mark.promise("P8")
@pytest.mark.parametrize("times", [2, 10])
def test_worker_ignores_repeated_message_for_succeeded_run(advance: Advance, times: int) -> None:
    info = services.start("steps", {"log": []})
    for _ in range(times):
        runner.advance(str(info.id))
    run = run_of(info)
    assert (run.state, run.thread.epoch) == ("succeeded", 1)


@pytest.mark.parametrize("bad", ["", "x", "00000000-0000-0000-0000-000000000000"])
def test_worker_ignores_message_with_invalid_or_unknown_run_id(advance: Advance, bad: str) -> None:
    runner.advance(bad)


@pytest.mark.promise("P10")
def test_run_with_valid_lease_cannot_be_claimed_or_executed_by_another_worker(
    advance: Advance,
) -> None:
    info = services.start("steps", {"log": []})
    held = run_leases.claim(info.id)
    assert held is not None
    assert run_leases.claim(info.id) is None
    runner.advance(str(info.id))
    assert run_of(info).state == "running"
    assert held.thread.renew()


@pytest.mark.promise("P10")
def test_worker_whose_lease_was_taken_over_cannot_commit_release_or_renew(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    frozen = run_leases.claim(info.id)
    assert frozen is not None
    lose_lease()
    runner.advance(str(info.id))
    assert run_of(info).state == "succeeded"
    count = Checkpoint.objects.count()

    saver = DjangoSaver(frozen.thread, RunFence(frozen))
    place = {"configurable": {"thread_id": info.thread_id}}
    for commit in (
        Commit(place, [TaskWrites("t", "", [("log", ["late"])])]),
        Commit(place, outcome=Outcome("failed", error=ValueError())),
    ):
        with pytest.raises(LeaseLostError):
            saver.commit(commit)
    with pytest.raises(LeaseLostError):
        run_leases.release(frozen, ValueError(), to_park=True)
    assert not frozen.thread.renew()
    assert (run_of(info).state, Checkpoint.objects.count()) == ("succeeded", count)


@pytest.mark.promise("P8")
def test_lease_renewal_after_run_was_interrupted_does_not_restore_the_lease(
    advance: Advance,
) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    thread = run_of(info).thread
    lease = ThreadLease(thread.pk, thread.thread_id, thread.epoch, using="default")
    assert not lease.renew()
    assert run_of(info).thread.lease_until is None
    services.decide(Interrupt.objects.get().pk, "approve")
    assert advance() == 1
    assert run_of(info).state == "succeeded"


@pytest.mark.promise("P8")
def test_call_of_once_by_background_code_after_its_run_paused_raises_lease_lost_error(
    advance: Advance, made: Callable[..., None]
) -> None:
    left: list[contextvars.Context] = []

    def leave(state: Any) -> Any:
        left.append(contextvars.copy_context())
        return {"count": interrupt("How many?")}

    made("leave", leave)
    services.start("leave", {"count": 1})
    advance()
    with pytest.raises(SaverFailed) as refused:
        left[0].run(once, "late", lambda: 7)
    assert isinstance(refused.value.error, LeaseLostError)
    thread = Thread.objects.get()
    assert (thread.lease_until, thread.attempts) == (None, 0)
    services.decide(Interrupt.objects.get().pk, "respond", 5)
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P10")
def test_worker_losing_its_lease_during_a_node_stores_no_further_checkpoint(
    advance: Advance, made: Callable[..., None]
) -> None:
    def stolen(state: Any) -> Any:
        Thread.objects.update(epoch=F("epoch") + 1)
        return {"count": 99}

    made("stolen", stolen)
    info = services.start("stolen", {"count": 1})
    advance()
    assert run_of(info).state == "running"
    assert set(Checkpoint.objects.values_list("step", flat=True)) == {-1, 0}


def test_exception_in_node_fails_run_and_sends_run_failed_signal(
    advance: Advance,
    made: Callable[..., None],
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(state: Any) -> Any:
        raise Unprintable("NUL \x00")

    made("fail", fail)
    heard: list[Any] = []

    def hear(run_id: str, state: str, **kwargs: Any) -> None:
        heard.append((run_id, state))

    signals.run_failed.connect(hear)
    info = services.start("fail", {"count": 1})
    with django_capture_on_commit_callbacks(execute=True):
        advance()
    assert heard == [(str(info.id), "failed")]
    assert (run_of(info).state, run_of(info).error) == ("failed", "Unprintable")
    assert "Unprintable" in run_of(info).traceback


def test_run_succeeded_signal_is_sent_at_end_of_run_and_not_at_interrupt_or_requeue(
    advance: Advance, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    heard: list[Any] = []

    def succeed(**kwargs: Any) -> None:
        heard.append({name: kwargs[name] for name in ("run_id", "thread_id", "graph")})

    def fail(state: str, **kwargs: Any) -> None:
        heard.append(state)

    signals.run_succeeded.connect(succeed)
    signals.run_failed.connect(fail)
    info = services.start("approval", {"text": "x"})
    with django_capture_on_commit_callbacks(execute=True):
        lease = run_leases.claim(info.id)
        assert lease is not None
        run_leases.release(lease, OperationalError("the database is away"), to_park=False)
        assert run_of(info).state == "queued"
        advance()
        services.decide(Interrupt.objects.get().pk, "approve")
    assert heard == []
    with django_capture_on_commit_callbacks(execute=True):
        advance()
    assert heard == [{"run_id": str(info.id), "thread_id": info.thread_id, "graph": "approval"}]


@pytest.mark.parametrize("words", ["NUL \x00", "lone \ud800", "x" * 200_000])
def test_node_error_with_nul_surrogate_or_200000_characters_is_stored_with_at_most_10000_characters(
    advance: Advance, made: Callable[..., None], words: str
) -> None:
    def fail(state: Any) -> Any:
        raise ValueError(words)

    made("fail", fail)
    info = services.start("fail", {"count": 1})
    advance()
    run = run_of(info)
    assert run.state == "failed"
    assert run.error.startswith("ValueError: ")
    assert len(run.error) <= 10_000


def test_unstorable_node_output_fails_run_with_error_naming_its_path(advance: Advance) -> None:
    info = services.start("unstorable", {"text": "x"})
    advance()
    run = run_of(info)
    assert run.state == "failed"
    assert "$.answer" in run.error
    assert run.thread.lease_until is None


@pytest.mark.promise("P12")
def test_endless_run_fails_at_recursion_limit_setting(advance: Advance) -> None:
    with override_settings(HITL={**settings.HITL, "RECURSION_LIMIT": 7}):
        info = services.start("endless", {"count": 0})
        advance()
    run = run_of(info)
    assert run.state == "failed"
    assert "Recursion limit of 7 reached" in run.error


@pytest.mark.promise("P11")
def test_run_whose_worker_dies_five_times_is_parked_until_retry(
    advance: Advance, made: Callable[..., None]
) -> None:
    bodies: list[int] = []

    def die(state: Any) -> Any:
        bodies.append(1)
        raise KeyboardInterrupt

    made("die", die)
    info = services.start("die", {"count": 1})
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            runner.advance(str(info.id))
        lose_lease()
    runner.advance(str(info.id))
    run = run_of(info)
    assert (run.state, len(bodies)) == ("parked", 5)
    assert "5 times" in run.error
    assert run.thread.lease_until is None
    runner.advance(str(info.id))
    assert len(bodies) == 5
    assert services.retry(info.id).state == "queued"
    with pytest.raises(KeyboardInterrupt):
        runner.advance(str(info.id))
    assert len(bodies) == 6


@pytest.mark.promise("P11")
def test_run_that_is_parked_at_its_claim_sends_run_failed_signal(
    advance: Advance, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    info = services.start("steps", {"log": []})
    Thread.objects.update(attempts=5)
    heard: list[tuple[str, str]] = []

    def hear(run_id: str, state: str, **kwargs: Any) -> None:
        heard.append((run_id, state))

    signals.run_failed.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        runner.advance(str(info.id))
    assert heard == [(str(info.id), "parked")]


@pytest.mark.promise("P11")
def test_run_whose_worker_dies_at_a_late_step_is_parked_after_five_attempts(
    advance: Advance,
) -> None:
    bodies: list[int] = []

    def die(state: Any) -> Any:
        bodies.append(1)
        raise KeyboardInterrupt

    graph = graphs.steps().add_node("f", die).add_edge("e", "f")
    registry.register("die late")(lambda: graph)
    try:
        info = services.start("die late", {"log": []})
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                runner.advance(str(info.id))
            lose_lease()
        runner.advance(str(info.id))
    finally:
        registry.unregister("die late")
    run = run_of(info)
    assert (run.state, run.step, len(bodies)) == ("parked", 5, 5)


@pytest.mark.promise("P11")
def test_run_attempts_are_reset_when_run_makes_progress(
    advance: Advance, made: Callable[..., None]
) -> None:
    info = services.start("steps", {"log": []})
    Thread.objects.update(attempts=4)
    advance()
    assert (run_of(info).state, run_of(info).thread.attempts) == ("succeeded", 0)


@pytest.mark.promise("P11")
def test_run_of_unregistered_graph_is_requeued_five_times_and_then_parked(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    Run.objects.update(graph="gone")
    for _ in range(5):
        runner.advance(str(info.id))
        run = run_of(info)
        assert (run.state, run.thread.lease_until) == ("queued", None)
        assert "Graph 'gone' is not registered" in run.error
    runner.advance(str(info.id))
    run = run_of(info)
    assert run.state == "parked"
    assert "Graph 'gone' is not registered" in run.error


@pytest.mark.promise("P22")
def test_failed_release_of_a_run_logs_the_database_error_and_not_the_node_error(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(*args: Any) -> Outcome:
        raise ValueError("canary 4711")

    def refuse(*args: Any, **kwargs: Any) -> None:
        try:
            raise ConnectionError("the server closed the connection")
        except ConnectionError as error:
            raise OperationalError from error

    monkeypatch.setattr(runner, "_run_graph", stop)
    monkeypatch.setattr(run_leases, "release", refuse)
    info = services.start("steps", {"log": []})
    runner.advance(str(info.id))
    assert "could not be released" in caplog.text
    assert "the server closed the connection" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.promise("P14")
def test_run_with_damaged_channel_value_is_parked_and_value_stays_unchanged(
    advance: Advance, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    info = services.start("steps", {"log": ["x"]})
    blob = ChannelBlob.objects.get(channel="log")
    damaged = bytes(blob.data)[:-1] + b"\x00"
    ChannelBlob.objects.filter(pk=blob.pk).update(data=damaged)
    heard: list[str] = []

    def hear(state: str, **kwargs: Any) -> None:
        heard.append(state)

    signals.run_failed.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        advance()
    assert heard == ["parked"]
    run = run_of(info)
    assert run.state == "parked"
    assert "is corrupt: digest mismatch" in run.error
    assert bytes(ChannelBlob.objects.get(pk=blob.pk).data) == damaged


@pytest.mark.promise("P12")
def test_run_exceeding_its_time_slice_is_requeued_between_steps(
    advance: Advance, made: Callable[..., None]
) -> None:
    # The time slice ends while the first node runs, and the node ends afterwards.
    started, ready = threading.Event(), threading.Event()

    def clock() -> float:
        return time.monotonic() + (1000 if started.is_set() else 0)

    def drain(state: Any) -> Any:
        started.set()
        assert ready.wait(60)
        return {"log": ["a"]}

    graph = StateGraph(graphs.Log).add_node("a", drain).add_node("b", lambda state: {"log": ["b"]})
    graph.add_edge("__start__", "a").add_edge("a", "b").add_edge("b", "__end__")
    registry.register("sliced")(lambda: graph)
    asked: list[str] = []

    class Control(runner.RunControl):
        def request_drain(self, reason: str = "") -> None:
            super().request_drain(reason)
            asked.append(reason)
            ready.set()

    try:
        info = services.start("sliced", {"log": []})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runner, "RunControl", Control)
            patch.setattr(dispatcher, "get_time_slice", lambda: 500)
            patch.setattr(time_slice, "monotonic", clock)
            # The renewing OS thread has its own connection. For that connection, this test's
            # transaction is only a lock (SQLite) or a missing lease (PostgreSQL).
            patch.setattr(ThreadLease, "renew", lambda lease: True)
            with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 0.05}):
                runner.advance(str(info.id))
        run = run_of(info)
        assert (run.state, run.step, run.thread.lease_until) == ("queued", 1, None)
        assert asked == ["time slice used up"]
        assert advance() == 2  # the message of the start, and the message of the yield
        assert run_of(info).state == "succeeded"
    finally:
        registry.unregister("sliced")


@pytest.mark.promise("P8")
def test_database_error_at_claim_is_logged_and_run_stays_queued(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(run_id: Any) -> None:
        raise OperationalError("the server is away")

    info = services.start("steps", {"log": []})
    with monkeypatch.context() as patch:
        patch.setattr(run_leases, "claim", refuse)
        runner.advance(str(info.id))
    assert "could not be claimed" in caplog.text
    assert run_of(info).state == "queued"
    advance()
    assert run_of(info).state == "succeeded"


@pytest.mark.promise("P11")
def test_run_cancelled_while_being_parked_stays_cancelled(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    park = transitions.park

    def cancel_and_park(lease: run_leases.RunLease, error: str) -> None:
        services.cancel(lease.run_id)
        park(lease, error)

    info = services.start("steps", {"log": []})
    Thread.objects.update(attempts=5)
    monkeypatch.setattr(transitions, "park", cancel_and_park)
    runner.advance(str(info.id))
    run = run_of(info)
    assert (run.state, run.thread.lease_until) == ("cancelled", None)


@pytest.mark.promise("P12")
def test_node_attempt_count_continues_after_worker_dies(
    advance: Advance, deployed: Callable[..., None]
) -> None:
    attempts: list[int] = []

    def fail(state: Any) -> Any:
        info = get_runtime().execution_info
        assert info is not None
        attempts.append(info.node_attempt)
        if len(attempts) == 2:
            raise KeyboardInterrupt  # the process ends during the step
        raise ConnectionError

    policy = RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=3)
    deployed("failing", StateGraph(graphs.Count).add_node("a", fail, retry_policy=policy))
    info = services.start("failing", {"count": 1})
    with pytest.raises(KeyboardInterrupt):
        runner.advance(str(info.id))
    lose_lease()
    runner.advance(str(info.id))
    assert attempts == [1, 2, 2, 3]
    assert (run_of(info).state, run_of(info).error) == ("failed", "ConnectionError: ")


@pytest.mark.promise("P12")
def test_node_exceeding_its_timeout_fails_run_with_node_timeout_error(
    advance: Advance, deployed: Callable[..., None]
) -> None:
    async def sleep(state: Any) -> Any:
        await asyncio.sleep(3600)

    deployed("sleeping", StateGraph(graphs.Count).add_node("a", sleep, timeout=0.01))
    info = services.start("sleeping", {"count": 1})
    advance()
    run = run_of(info)
    assert (run.state, run.thread.lease_until) == ("failed", None)
    assert run.error.startswith("NodeTimeoutError: ")


@pytest.mark.promise("P13")
def test_draining_worker_process_requeues_its_run_and_claims_no_second_run(
    advance: Advance, made: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_drain_reason", None)
    graph = graphs.steps().add_node("told", lambda state: runner.drain("SIGTERM"))
    graph.add_edge("__start__", "told")
    registry.register("told")(lambda: graph)
    try:
        info, other = services.start("told", {"log": []}), services.start("steps", {"log": []})
        testing.run_ids.clear()
        runner.advance(str(info.id))
        run = run_of(info)
        assert (run.state, run.step, run.thread.lease_until) == ("queued", 1, None)
        assert run.thread.attempts == 0
        runner.advance(str(other.id))
        assert (run_of(other).state, run_of(other).thread.epoch) == ("queued", 0)
        assert testing.run_ids == [str(info.id), str(other.id)]

        monkeypatch.setattr(runner, "_drain_reason", None)  # simulates the next process
        assert advance() == 2
        assert {run_of(info).state, run_of(other).state} == {"succeeded"}
    finally:
        registry.unregister("told")


@pytest.mark.promise("P13")
def test_drain_request_between_claim_and_first_step_requeues_the_run(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_drain_reason", None)
    claim = run_leases.claim

    def claim_and_drain(run_id: Any) -> Any:
        lease = claim(run_id)
        runner.drain()
        return lease

    monkeypatch.setattr(run_leases, "claim", claim_and_drain)
    info = services.start("steps", {"log": []})
    runner.advance(str(info.id))
    assert run_of(info).state == "queued"


def pause(lease: Any, row: Interrupt, words: str) -> None:
    """Commit the interrupt of a worker that loaded the run before ``row`` was answered."""
    interrupt = PendingInterrupt(
        Asked(words, row.interrupt_id), row.node, row.task_id, row.task_path, "", row.checkpoint_id
    )
    place = {"configurable": {"thread_id": lease.thread.thread_id}}
    saver = DjangoSaver(lease.thread, RunFence(lease))
    saver.commit(Commit(place, outcome=Outcome("interrupted", (interrupt,))))


@pytest.mark.promise("P8")
def test_run_pausing_after_its_interrupt_was_answered_is_queued_immediately(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start("panel", {"log": []})
    advance()
    left, right = Interrupt.objects.order_by("task_path")
    services.decide(left.pk, "respond", "L")
    lease = run_leases.claim(left.run_id)
    services.decide(right.pk, "respond", "R")
    assert Run.objects.get().state == "running"

    hinted: list[object] = []
    monkeypatch.setattr(dispatcher, "enqueue", lambda run_id, batch: hinted.append(run_id))
    pause(lease, right, "Question to right")
    assert Run.objects.get().state == "queued"
    assert hinted == [right.run_id]
    runner.advance(str(right.run_id))
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P4")
def test_decision_with_old_digest_or_version_of_changed_interrupt_raises_stale_interrupt_error(
    advance: Advance,
) -> None:
    services.start("panel", {"log": []})
    advance()
    shown, other = Interrupt.objects.order_by("task_path")
    services.decide(other.pk, "approve")
    pause(run_leases.claim(shown.run_id), shown, "Something else?")
    now = Interrupt.objects.get(pk=shown.pk)
    assert (now.title, now.version, now.status) == ("Something else?", 2, "pending")
    assert Run.objects.get().state == "interrupted"
    for seen in ({"digest": shown.payload_digest}, {"version": 1}):
        with pytest.raises(StaleInterruptError):
            services.decide(shown.pk, "approve", **seen)
    services.decide(shown.pk, "approve", digest=now.payload_digest, version=2)


@pytest.mark.promise("P4")
def test_interrupt_changed_by_rerun_loses_expiry_refusal_and_approvals(advance: Advance) -> None:
    services.start("panel", {"log": []})
    advance()
    shown, other = Interrupt.objects.order_by("task_path")
    services.decide(other.pk, "approve")
    tomorrow = Now() + timedelta(days=1)
    Interrupt.objects.filter(pk=shown.pk).update(
        expiry={"seconds": 86400, "then": "cancel", "answer": None},
        expires_at=tomorrow,
        warn_at=tomorrow,
        refused_version=1,
        approvals=1,
    )
    pause(run_leases.claim(shown.run_id), shown, "Something else?")
    now = Interrupt.objects.get(pk=shown.pk)
    assert (now.title, now.status) == ("Something else?", "pending")
    assert (now.expires_at, now.warn_at, now.refused_version) == (None, None, None)
    assert now.approvals == 0


@pytest.mark.promise("P4")
def test_superseded_interrupt_that_is_raised_again_preserves_options_and_restarts_its_expiry(
    advance: Advance,
) -> None:
    terms: dict[str, Any] = {"title": "Pay it?", "why": "A lot.", "quorum": 2}
    terms |= {"expires": timedelta(days=1), "due": timedelta(hours=1)}
    info = services.start("reviewed", {"payload": {"amount": 5}, "terms": terms})
    advance()
    before = Interrupt.objects.get()
    Run.objects.update(state="failed")
    Interrupt.objects.update(status="superseded", expires_at=None, warn_at=None)
    services.retry(info.id)
    advance()
    interrupt = Interrupt.objects.get()
    assert (interrupt.status, interrupt.version) == ("pending", 2)
    assert (interrupt.title, interrupt.why, interrupt.quorum) == ("Pay it?", "A lot.", 2)
    assert (interrupt.expiry, interrupt.due_at) == (before.expiry, before.due_at)
    assert interrupt.due_at is not None
    assert interrupt.warn_at is not None
    assert interrupt.expires_at is not None
    assert before.expires_at is not None
    assert interrupt.expires_at >= before.expires_at


def test_interrupt_no_longer_raised_by_rerun_is_superseded(advance: Advance) -> None:
    services.start("panel", {"log": []})
    advance()
    left, right = Interrupt.objects.order_by("task_path")
    Run.objects.update(state="queued")
    pause(run_leases.claim(left.run_id), left, "Question to left")
    right.refresh_from_db()
    left.refresh_from_db()
    assert (left.status, left.version) == ("pending", 1)
    assert (right.status, right.version) == ("superseded", 2)


def test_superseded_interrupt_of_failed_run_is_pending_again_after_retry(advance: Advance) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    # Simulates a run that failed in parallel to its interrupt.
    Run.objects.update(state="failed")
    Interrupt.objects.update(status="superseded")
    services.retry(info.id)
    advance()
    interrupt = Interrupt.objects.get()
    assert (interrupt.status, interrupt.version) == ("pending", 2)
    assert Run.objects.get().state == "interrupted"
    services.decide(interrupt.pk, "approve")


@pytest.mark.django_db(transaction=True)
def test_heartbeat_renews_lease_while_a_node_is_running(made: Callable[..., None]) -> None:
    renewed = threading.Event()
    renew = ThreadLease.renew

    def noting(lease: Any) -> bool:
        try:
            return renew(lease)
        finally:
            renewed.set()

    before: list[Any] = []

    def slow(state: Any) -> Any:
        before.append(Thread.objects.get().lease_until)
        for _ in range(2):  # the first run may have started before this check
            renewed.clear()
            assert renewed.wait(60)
        before.append(Thread.objects.get().lease_until)
        return {"count": 1}

    made("slow", slow)
    with testing.inline(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadLease, "renew", noting)
        with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 0.05}):
            info = services.start("slow", {"count": 0})
            runner.advance(str(info.id))
    assert before[1] > before[0]
    assert run_of(info).state == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_node_executed_by_worker_runs_outside_transactions(made: Callable[..., None]) -> None:
    seen: list[bool] = []

    def look(state: Any) -> Any:
        seen.append(connection.in_atomic_block)
        return {"count": 1}

    made("look", look)
    with testing.inline() as advance_all:
        services.start("look", {"count": 0})
        advance_all()
    assert seen == [False]
