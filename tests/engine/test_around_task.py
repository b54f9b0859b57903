"""Contexts around each task of a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import pytest

from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import RetryPolicy


class State(TypedDict, total=False):
    text: str


def build(attempts: list[int]) -> Any:
    """Build a graph whose first node fails once. The second node calls another graph."""

    def fail_once(state: State) -> State:
        attempts.append(threading.get_ident())
        if len(attempts) == 1:
            raise LookupError
        return {}

    async def call(state: State) -> State:
        await below.ainvoke({"text": ""})
        return {}

    def call_here(state: State) -> State:
        below.invoke({"text": ""})
        return {}

    below: Any = StateGraph(State).add_node("inner", lambda state: {}).add_edge(START, "inner")
    below = below.compile()
    retry = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=LookupError)
    graph = StateGraph(State).add_node("first", fail_once, retry_policy=retry)
    graph.add_edge(START, "first").add_edge("first", "here").add_node("here", call_here)
    return graph.add_edge("here", "there").add_node("there", call).compile()


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
def test_around_task_context_of_run_control_encloses_all_attempts_of_a_task(form: str) -> None:
    attempts: list[int] = []
    heard: list[tuple[str, str]] = []

    @contextmanager
    def around_task(context: TaskContext) -> Iterator[None]:
        heard.append(("begins", context.task.name))
        yield
        assert context.task.writes is not None
        heard.append(("ends", context.task.name))

    control = RunControl()
    control.around_task = around_task
    graph = build(attempts)
    if form == "invoke":
        graph.invoke({"text": ""}, control=control)
    else:
        asyncio.run(graph.ainvoke({"text": ""}, control=control))
    assert len(attempts) == 2
    within = [("begins", "inner"), ("ends", "inner")]
    assert heard == [
        ("begins", "first"),
        ("ends", "first"),
        ("begins", "here"),
        *within,
        ("ends", "here"),
        ("begins", "there"),
        *within,
        ("ends", "there"),
    ]


def test_around_task_context_of_run_control_receives_the_error_of_a_failed_task() -> None:
    def fail(state: State) -> State:
        raise LookupError

    failed: list[BaseException | None] = []

    @contextmanager
    def around_task(context: TaskContext) -> Iterator[None]:
        yield
        failed.append(context.task.error)

    control = RunControl()
    control.around_task = around_task
    graph = StateGraph(State).add_node("fail", fail).add_edge(START, "fail").compile()
    with pytest.raises(LookupError) as raised:
        graph.invoke({"text": ""}, control=control)
    assert failed == [raised.value]
