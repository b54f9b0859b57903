"""Attempts that outlive their process: their number, and the time of the next attempt."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import Command, StateGraph, interrupt, once
from hitl_django.engine.constants import ATTEMPTS
from hitl_django.engine.drivers import task_steps
from hitl_django.engine.errors import GraphDrained
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import get_runtime
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import RetryPolicy
from tests.clock import module_time

from .crashing import Crash, store_answer
from .graphs import CONFIG, State, saved

Run = Callable[[Pregel], Any]


class Failing:
    """Node that fails the given number of times, and stores the number of each attempt."""

    def __init__(self, times: int) -> None:
        self.times, self.attempts, self.began = times, [], set()

    def __call__(self, state: State) -> dict[str, Any]:
        info = get_runtime().execution_info
        self.attempts.append(info.node_attempt)
        self.began.add(info.node_first_attempt_time)
        if len(self.attempts) <= self.times:
            raise ConnectionError(f"attempt {info.node_attempt}")
        return {"log": [f"attempt {info.node_attempt}"]}


def trying(node: Any, saver: Any = None, **policy: Any) -> Pregel:
    retry = RetryPolicy(**{"initial_interval": 0.0001, "jitter": False, **policy})
    graph = StateGraph(State).add_node("a", node, retry_policy=retry).add_edge("__start__", "a")
    return saved(graph, saver)


def submitted(graph: Pregel) -> Pregel:
    graph.submit({"x": 1, "log": []}, CONFIG)
    return graph


def stored(graph: Pregel) -> list[Any]:
    writes = graph.checkpointer.get_tuple(CONFIG).pending_writes
    return [value for _, channel, value in writes if channel == ATTEMPTS]


class DiesWaiting(InMemorySaver):
    """Saver that ends the process after it has stored that a task waits for its next attempt."""

    armed = True

    def commit(self, commit: Any) -> None:
        super().commit(commit)
        if self.armed and any(
            w[0] == ATTEMPTS and w[1] for task in commit.writes for w in task.writes
        ):
            raise Crash


def advanced(graph: Pregel) -> Any:
    return graph.advance(CONFIG)


def ainvoked(graph: Pregel) -> Any:
    return asyncio.run(graph.ainvoke(None, CONFIG))


WAYS = pytest.mark.parametrize("run", [advanced, ainvoked])


@WAYS
@pytest.mark.promise("P12")
def test_node_attempt_count_continues_after_crash_between_attempts(run: Run) -> None:
    node, saver = Failing(5), DiesWaiting()
    graph = submitted(trying(node, saver, max_attempts=3))
    for attempt in (1, 2):
        with pytest.raises(Crash):
            run(graph)
        assert node.attempts[-1] == attempt
    outcome = graph.advance(CONFIG)
    assert (outcome.status, str(outcome.error)) == ("failed", "attempt 3")
    assert node.attempts == [1, 2, 3]
    assert len(node.began) == 1


def test_node_retry_after_crash_waits_only_the_remaining_retry_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    saver = DiesWaiting()
    graph = submitted(trying(Failing(1), saver, initial_interval=50))
    with pytest.raises(Crash):
        graph.advance(CONFIG)
    saver.armed = False
    monkeypatch.setattr(task_steps, "time", module_time(sleep=waits.append))
    assert graph.advance(CONFIG).status == "finished"
    [left] = waits
    assert 40 < left <= 50


def test_node_of_failed_run_invoked_again_gets_all_retry_attempts() -> None:
    node = Failing(3)
    graph = submitted(trying(node, max_attempts=2))
    assert graph.advance(CONFIG).status == "failed"
    assert stored(graph) == [None]
    assert graph.advance(CONFIG).status == "finished"
    assert node.attempts == [1, 2, 1, 2]


def test_interrupt_between_two_failures_resets_node_attempt_count() -> None:
    calls: list[int] = []

    def node(state: State) -> dict[str, Any]:
        calls.append(get_runtime().execution_info.node_attempt)
        if len(calls) in (1, 3):
            raise ConnectionError
        return {"log": [interrupt("go on?")]}

    graph = submitted(trying(node, max_attempts=2))
    outcome = graph.advance(CONFIG)
    assert outcome.status == "interrupted"
    store_answer(graph, outcome, "yes")
    assert graph.advance(CONFIG).status == "finished"
    assert calls == [1, 2, 1, 2]


def test_drain_request_during_retry_delay_makes_advance_return_drained() -> None:
    node, control = Failing(1), RunControl()
    graph = submitted(trying(node, initial_interval=1000))
    left = []
    worker = threading.Thread(target=lambda: left.append(graph.advance(CONFIG, control=control)))
    worker.start()
    while not stored(graph):
        worker.join(0.001)
    control.request_drain()
    worker.join(60)
    assert [outcome.status for outcome in left] == ["drained"]
    assert stored(graph)[0][0] == 1
    assert node.attempts == [1]


def test_drain_request_during_async_retry_delay_raises_graph_drained() -> None:
    node, control = Failing(1), RunControl()
    graph = submitted(trying(node, initial_interval=1000))

    async def run() -> None:
        going = asyncio.ensure_future(graph.ainvoke(None, CONFIG, control=control))
        while not stored(graph):
            await asyncio.sleep(0.001)
        # As the thread that renews the lease does.
        threading.Thread(target=control.request_drain).start()
        with pytest.raises(GraphDrained):
            await asyncio.wait_for(going, 60)

    asyncio.run(run())
    assert stored(graph)[0][0] == 1
    assert node.attempts == [1]


def test_run_control_async_wait_returns_true_only_after_drain_request() -> None:
    control = RunControl()
    assert asyncio.run(control.await_(0.001)) is False
    control.request_drain()
    assert asyncio.run(control.await_(1000)) is True


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_run_drained_during_retry_delay_stores_response_and_once_result(durability: str) -> None:
    control, calls = RunControl(), Counter[str]()

    def node(state: State) -> dict[str, Any]:
        said = interrupt("go on?")
        once("mail", calls.update, ["mail"])
        calls["node"] += 1
        if calls["node"] == 1:
            raise ConnectionError
        return {"log": [said, get_runtime().execution_info.node_attempt]}

    def request(error: Exception) -> bool:
        control.request_drain()
        return True

    graph = trying(node, retry_on=request, initial_interval=0.01)
    graph.invoke({"x": 1, "log": []}, CONFIG, durability=durability)
    with pytest.raises(GraphDrained):
        graph.invoke(Command(resume="yes"), CONFIG, durability=durability, control=control)
    assert graph.invoke(None, CONFIG, durability=durability)["log"] == ["yes", 2]
    assert calls["mail"] == 1


def test_replay_from_checkpoint_counts_node_attempts_from_one() -> None:
    node, saver = Failing(2), DiesWaiting()
    graph = submitted(trying(node, saver, max_attempts=3))
    with pytest.raises(Crash):
        graph.advance(CONFIG)
    saver.armed = False
    place = graph.get_state(CONFIG).config
    graph.invoke(None, place)
    assert node.attempts == [1, 1, 2]


def test_node_succeeding_on_first_attempt_stores_no_attempt_count() -> None:
    graph = submitted(trying(Failing(0)))
    before = graph.get_state(CONFIG).config
    assert graph.advance(CONFIG).status == "finished"
    assert all(w[1] != ATTEMPTS for w in graph.checkpointer.get_tuple(before).pending_writes)
