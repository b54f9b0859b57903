"""External causes that stop a run, stored in the run before its process ends."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db.models.functions import Now
from django_q.conf import Conf
from django_q.exceptions import TimeoutException

from hitl_django import run_leases, services, testing
from hitl_django.contrib.celery import Dispatcher as CeleryDispatcher
from hitl_django.engine.constants import CONTROL_SLOTS, ERROR
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.types import RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.models import PendingWrite, Run, Thread
from hitl_django.task_queue import dispatcher
from hitl_django.worker import runner
from tests import graphs

Made = Callable[..., str]


@pytest.fixture
def made(db: None) -> Iterator[Made]:
    """Register a graph of parallel nodes, and start a run of the graph."""

    def make(**nodes: Any) -> str:
        graph = StateGraph(graphs.Count)
        for name, node in nodes.items():
            graph.add_node(name, node, retry_policy=RetryPolicy()).add_edge("__start__", name)
        registry.register("stopped")(lambda: graph)
        return str(services.start("stopped", {"count": 1}).id)

    with testing.inline():
        yield make
    registry.unregister("stopped")


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {TimeoutException: "exceeded Q_CLUSTER['timeout'] (60 s)"}
    monkeypatch.setattr(dispatcher, "get_stop_errors", lambda: reasons)


@contextmanager
def alarm(error: type[BaseException]) -> Iterator[None]:
    """Make ``time_out`` raise an error in the main thread, as a queue's timeout does."""

    def fire(number: int, frame: FrameType | None) -> None:
        raise error("Task exceeded maximum timeout value")

    # SIGALRM is already used by the tests' own timeout.
    before = signal.signal(signal.SIGUSR1, fire)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def time_out() -> None:
    # Another thread could receive a signal sent to the process, and the main thread later.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def get_run() -> Run:
    return Run.objects.select_related("thread").get()


def hang(state: Any) -> None:
    time_out()
    time.sleep(60)


async def hang_on_loop(state: Any) -> None:
    time_out()
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))


@pytest.mark.promise("P11")
@pytest.mark.usefixtures("timeouts")
@pytest.mark.parametrize("node", [hang, hang_on_loop])
def test_run_exceeding_queue_timeout_five_times_is_parked_with_error_naming_node(
    made: Made, node: Any
) -> None:
    run_id = made(pay=node)
    for attempt in range(1, 6):
        with alarm(TimeoutException), pytest.raises(TimeoutException):
            runner.advance(run_id)
        run = get_run()
        assert run.state == "queued"
        assert run.error == "exceeded Q_CLUSTER['timeout'] (60 s) in node 'pay'"
        assert (run.thread.lease_until, run.thread.attempts) == (None, attempt)
    runner.advance(run_id)
    run = get_run()
    assert run.state == "parked"
    assert run.error == (
        "exceeded Q_CLUSTER['timeout'] (60 s) in node 'pay'. "
        "The run was claimed 5 times without progress."
    )


@pytest.mark.usefixtures("timeouts")
@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_queue_timeout_is_stored_on_run_while_its_node_is_still_running(
    made: Made, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    noted = threading.Event()

    def wait(state: Any) -> None:
        time_out()
        noted.wait(60)

    async def wait_on_loop(state: Any) -> None:
        time_out()
        try:
            await asyncio.sleep(60)
        finally:
            noted.wait(60)

    def note(*args: Any) -> None:
        stored.append(args[1])
        noted.set()

    stored: list[str] = []
    monkeypatch.setattr(run_leases, "note_error", note)
    if kind == "thread":
        run_id = made(pay=wait, ship=wait)
        monkeypatch.setattr("hitl_django.checkpoints.DjangoSaver.thread_bound", True)
    else:
        run_id = made(pay=wait_on_loop)
    with alarm(TimeoutException), pytest.raises(TimeoutException):
        runner.advance(run_id)
    (line,) = stored
    assert line == "exceeded Q_CLUSTER['timeout'] (60 s) in node 'pay'"
    assert get_run().error == line
    assert not PendingWrite.objects.filter(slot=CONTROL_SLOTS[ERROR]).exists()


@pytest.mark.any_database
def test_system_exit_in_node_fails_run_and_does_not_stop_the_worker(made: Made) -> None:
    def leave(state: Any) -> None:
        raise SystemExit("bye")

    runner.advance(made(leave=leave))
    assert (get_run().state, get_run().error) == ("failed", "SystemExit: bye")


@pytest.mark.any_database
@pytest.mark.slow
def test_error_of_run_failed_by_exception_group_names_every_member(made: Made) -> None:
    async def fail(state: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail(ValueError("no such thing")))
            group.create_task(_fail(LookupError("nor this")))

    runner.advance(made(fail=fail))
    assert get_run().state == "failed"
    assert get_run().error == (
        "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions): "
        "ValueError: no such thing; LookupError: nor this"
    )


async def _fail(error: Exception) -> None:
    raise error


@pytest.mark.any_database
def test_keyboard_interrupt_in_node_requeues_run_with_error_naming_node(made: Made) -> None:
    def leave(state: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.advance(made(leave=leave))
    run = get_run()
    assert (run.state, run.error) == ("queued", "KeyboardInterrupt in node 'leave'")
    assert run.thread.lease_until is None


@pytest.mark.any_database
def test_celery_soft_time_limit_in_node_requeues_run_with_error_naming_limit(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exceed(state: Any) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(dispatcher, "get_stop_errors", CeleryDispatcher().stop_errors)
    conf = SimpleNamespace(task_soft_time_limit=30)
    monkeypatch.setattr(
        "hitl_django.contrib.celery.dispatcher.current_app", SimpleNamespace(conf=conf)
    )
    runner.advance(made(pay=exceed))
    run = get_run()
    assert run.state == "queued"
    assert run.error == "exceeded Celery's soft time limit (30 s) in node 'pay'"


@pytest.mark.any_database
def test_stored_stop_reason_of_run_is_cleared_when_run_succeeds(made: Made) -> None:
    calls: list[str] = []

    def leave(state: Any) -> None:
        calls.append("leave")
        if len(calls) == 1:
            raise KeyboardInterrupt

    run_id = made(leave=leave)
    with pytest.raises(KeyboardInterrupt):
        runner.advance(run_id)
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    runner.advance(run_id)
    assert (get_run().state, get_run().error) == ("succeeded", "")


def test_django_q2_dispatcher_stop_errors_name_the_q_cluster_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hitl_django.contrib.django_q2 import Dispatcher

    monkeypatch.setattr(Conf, "TIMEOUT", 60)
    (reason,) = Dispatcher().stop_errors().items()
    assert reason == (TimeoutException, "exceeded Q_CLUSTER['timeout'] (60 s)")
