"""Durability of registered graphs: the data that a worker stores, and the time of storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models import F

from hitl_django import StateGraph, interrupt, once, register, services, testing
from hitl_django.db.commit_threads import commit_threads
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import DURABILITIES
from hitl_django.models import Checkpoint, Interrupt, Run, RunEvent, Thread
from hitl_django.worker import runner
from tests import graphs
from tests.reading import values_of
from tools.benchmarks.counts import counting

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "stored in its own way"
Node = Callable[[Any], Any]


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """Register a graph of consecutive nodes, start a run, and return its id."""

    def begin(durability: Any, *nodes: Node, **how: Any) -> str:
        graph, before = StateGraph(graphs.Count), "__start__"
        for number, node in enumerate(nodes):
            graph.add_node(f"n{number}", node).add_edge(before, f"n{number}")
            before = f"n{number}"
        graph.add_edge(before, "__end__")
        register(NAME, durability=durability, **how)(lambda: graph)
        return str(services.start(NAME, {"count": 0}).id)

    with testing.inline():
        yield begin
    registry.unregister(NAME)


def add(state: Any) -> Any:
    return {"count": state["count"] + 1}


def ask(state: Any) -> Any:
    return {"count": state["count"] + interrupt("How many?")}


def steps() -> list[int]:
    return list(Checkpoint.objects.order_by("checkpoint_id").values_list("step", flat=True))


def test_registration_with_unknown_durability_raises_value_error() -> None:
    with pytest.raises(ValueError, match="must be one of sync, async, exit, not 'never'"):
        register("a graph", durability="never")  # type: ignore[arg-type]
    assert "a graph" not in registry.list_names()


@pytest.mark.parametrize("durability", DURABILITIES)
def test_run_has_same_result_for_every_durability(
    durability: str, start: Callable[..., str]
) -> None:
    run = start(durability, add, add, ask, add)
    runner.advance(run)
    services.decide(Interrupt.objects.get().pk, "respond", 5)
    runner.advance(run)
    assert values_of(Thread.objects.get())["count"] == 8
    assert steps() == ([-1, 0, 2, 4] if durability == "exit" else [-1, 0, 1, 2, 3, 4])


@pytest.mark.promise("P3")
def test_run_with_exit_durability_is_stored_with_its_interrupt_in_one_transaction(
    start: Callable[..., str],
) -> None:
    run = start("exit", add, add, ask, add)
    with counting() as counts:
        runner.advance(run)
    assert Interrupt.objects.count() == 1
    # One commit claims the thread, and one stores all results.
    assert counts.transactions == 2


def test_run_with_exit_durability_stores_events_only_with_their_steps(
    start: Callable[..., str],
) -> None:
    seen: list[int] = []

    def look(state: Any) -> Any:
        seen.append(RunEvent.objects.filter(kind="updates").count())
        return add(state)

    run = start("exit", add, look, ask, add, events=["updates"])
    runner.advance(run)
    kinds = list(RunEvent.objects.order_by("seq").values_list("kind", flat=True))
    assert (seen, kinds) == ([0], ["queued", "updates", "updates", "updates", "interrupted"])


@pytest.mark.promise("P6")
def test_run_with_exit_durability_whose_lease_was_taken_over_stores_no_step_and_no_event(
    start: Callable[..., str],
) -> None:
    def lose(state: Any) -> Any:
        Thread.objects.update(epoch=F("epoch") + 1)
        return add(state)

    run = start("exit", add, lose, add, events=["updates"])
    runner.advance(run)
    assert steps() == [-1, 0]
    assert not RunEvent.objects.filter(kind="updates").exists()
    assert Run.objects.get().state == "running"


@pytest.mark.promise("P12")
def test_run_with_exit_durability_stores_its_steps_when_worker_drains(
    start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_drain_reason", None)
    calls: list[str] = []

    def slow(state: Any) -> Any:
        calls.append("slow")
        runner.drain()
        return add(state)

    run = start("exit", add, slow, add)
    runner.advance(run)
    assert (Run.objects.get().state, steps()) == ("queued", [-1, 0, 2])
    runner._drain_reason = None
    runner.advance(run)
    assert (Run.objects.get().state, calls) == ("succeeded", ["slow"])


@pytest.mark.parametrize("durability", DURABILITIES)
def test_failed_run_with_any_durability_stores_steps_before_the_failed_node(
    durability: str, start: Callable[..., str]
) -> None:
    calls: list[str] = []

    def counted(state: Any) -> Any:
        calls.append("counted")
        return add(state)

    def fail_first(state: Any) -> Any:
        calls.append("fails")
        if calls.count("fails") == 1:
            raise OSError("down")
        return add(state)

    run = start(durability, counted, fail_first)
    runner.advance(run)
    assert (Run.objects.get().state, steps()[-1]) == ("failed", 1)
    services.retry(run)
    runner.advance(run)
    assert (Run.objects.get().state, calls) == ("succeeded", ["counted", "fails", "fails"])


@pytest.mark.parametrize("durability", DURABILITIES)
def test_run_with_any_durability_stores_its_last_step_at_recursion_limit(
    durability: str, start: Callable[..., str], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "RECURSION_LIMIT": 2}
    runner.advance(start(durability, *[add] * 9))
    row = Run.objects.get()
    assert (row.state, row.step, steps()[-1]) == ("failed", 2, 2)
    assert "GraphRecursionError" in row.error


def test_run_with_exit_durability_cancelled_during_a_node_stores_no_further_step(
    start: Callable[..., str],
) -> None:
    def cancel(state: Any) -> Any:
        services.cancel(Run.objects.get().pk)
        return add(state)

    runner.advance(start("exit", add, cancel, add))
    assert (Run.objects.get().state, steps()) == ("cancelled", [-1, 0])


def test_run_with_exit_durability_and_unstorable_value_fails_and_releases_lease(
    start: Callable[..., str],
) -> None:
    run = start("exit", add, lambda state: {"count": object()}, lambda state: None)
    runner.advance(run)
    row = Run.objects.get()
    assert (row.state, steps()) == ("failed", [-1, 0])
    assert "UnserializableError" in row.error
    assert Thread.objects.get().lease_until is None


@pytest.mark.promise("P11")
def test_once_call_in_run_with_exit_durability_resets_attempts_of_the_run(
    start: Callable[..., str],
) -> None:
    attempts: list[int] = []

    def pay(state: Any) -> Any:
        once("pay", lambda: None)
        attempts.append(Thread.objects.get().attempts)
        return add(state)

    run = start("exit", add, pay)
    Thread.objects.update(attempts=3)
    runner.advance(run)
    assert attempts == [1]


@pytest.mark.database("postgresql")
def test_run_with_async_durability_stores_steps_over_a_second_database_connection(
    start: Callable[..., str],
) -> None:
    pids: list[int] = []

    def look(state: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND backend_type = 'client backend'"
            )
            pids.append(cursor.fetchone()[0])
        return add(state)

    run = start("async", add, look, look)
    runner.advance(run)
    assert Run.objects.get().state == "succeeded"
    assert pids[-1] > 1


@pytest.mark.database("postgresql")
def test_leaving_inline_block_ends_os_threads_that_store_steps_of_runs_with_async_durability(
    start: Callable[..., str],
) -> None:
    with testing.inline():
        runner.advance(start("async", add, add, add))
        assert "hitl-commit" in {thread.name for thread in threading.enumerate()}
    assert "hitl-commit" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.promise("P10")
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_run_whose_lease_was_taken_over_logs_takeover_and_stores_no_further_step(
    durability: str, start: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    def lose(state: Any) -> Any:
        Thread.objects.update(epoch=F("epoch") + 1)
        return add(state)

    def later(state: Any) -> Any:
        calls.append("later")
        return add(state)

    run = start(durability, add, lose, later, later, later)
    runner.advance(run)
    assert "was taken over" in caplog.text
    # With "async", the previous step was being stored, and the next step may have begun.
    assert steps() == [-1, 0, 1][: len(steps())]
    assert (durability == "async" or len(steps()) == 3, len(calls) < 2) == (True, True)


@pytest.mark.django_db(transaction=False)
def test_run_with_async_durability_inside_transaction_uses_no_second_connection(
    start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: Any) -> None:
        raise AssertionError("another connection sees nothing of this transaction")

    monkeypatch.setattr(commit_threads, "submit", refuse)
    run = start("async", add, add, ask)
    runner.advance(run)
    assert (Run.objects.get().state, steps()) == ("interrupted", [-1, 0, 1, 2])


@pytest.mark.database("sqlite")
def test_run_with_async_durability_on_sqlite_uses_no_second_connection(
    start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_threads, "submit", None)
    runner.advance(start("async", add, add))
    assert Run.objects.get().state == "succeeded"


@pytest.mark.database("postgresql")
def test_run_with_async_durability_that_loses_its_connection_resumes_from_last_stored_step(
    start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = commit_threads.submit

    def cut(store: Callable[[], None]) -> Any:
        def store_over_a_cut_wire() -> None:
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                pid = cursor.fetchone()[0]
            terminated.append(pid)
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        return submit(store if terminated else store_over_a_cut_wire)

    terminated: list[int] = []
    monkeypatch.setattr(commit_threads, "submit", cut)
    run = start("async", add, add, add)
    runner.advance(run)
    assert (Run.objects.get().state, steps()) == ("queued", [-1, 0])
    runner.advance(run)
    assert values_of(Thread.objects.get())["count"] == 3
