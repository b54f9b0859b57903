"""Options of a run, set by the caller or the graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl_django import Command, StateGraph
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.types import Interrupt

from .graphs import CONFIG, State, asks, line, open_interrupts, paused, saved


def test_resume_with_rerun_unanswered_false_runs_only_the_answered_node() -> None:
    ran: list[str] = []

    def counted(name: str) -> Any:
        def node(state: State) -> Any:
            ran.append(name)
            return asks(name)(state)

        return node

    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, counted(name)).add_edge("__start__", name)
    stopped = paused(graph)
    ran.clear()
    place = {"configurable": {**CONFIG["configurable"], "rerun_unanswered": False}}
    stopped.invoke(Command(resume={open_interrupts(stopped)["a"]: "yes"}), place)
    assert ran == ["a"]
    assert list(open_interrupts(stopped)) == ["b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": "thread"}, "config must be a dict, not 'thread'"),
        ({"config": {"configurable": "t"}}, r"config\[\"configurable\"\] must be a dict, not 't'"),
        ({"stream_mode": "update"}, "stream_mode must be one of values, .*, not 'update'"),
        ({"stream_mode": ["values", "x"]}, "stream_mode must be one of values, .*, not 'x'"),
        ({"durability": "never"}, "durability must be one of sync, async, exit, not 'never'"),
    ],
)
def test_call_with_invalid_option_raises_error_with_its_name(
    options: dict[str, Any], message: str
) -> None:
    graph = line(a=lambda state: {}).compile()
    with pytest.raises((TypeError, ValueError), match=message):
        graph.invoke({"x": 1}, **options)
    with pytest.raises((TypeError, ValueError), match=message):
        list(graph.stream({"x": 1}, **options))
    with pytest.raises((TypeError, ValueError), match=message):
        asyncio.run(graph.ainvoke({"x": 1}, **options))


def test_node_exceeding_step_timeout_fails_async_run_with_timeout_error() -> None:
    async def never_ends(state: State) -> None:
        await asyncio.Event().wait()

    graph = saved(line(a=never_ends))
    graph.step_timeout = 0.01
    with pytest.raises(TimeoutError, match="Timed out"):
        asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    assert graph.get_state(CONFIG).next == ("a",)


def test_runtime_merge_uses_context_of_the_argument_or_else_the_context_of_the_runtime() -> None:
    base, other = Runtime(context="base"), Runtime(context="other")
    assert base.merge(other).context == "other"
    assert base.merge(Runtime()).context == "base"


def test_interrupt_object_constructed_without_id_has_placeholder_id() -> None:
    assert Interrupt("q").id == "placeholder-id"
