"""Durability "exit": stored results after every way in which a run can end."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from typing_extensions import TypedDict

from hitl_django import END, START, Command, StateGraph, interrupt
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver

from .test_conformance import saver

__all__ = ["saver"]

CONFIG = {"configurable": {"thread_id": "t"}}
Saver = BaseCheckpointSaver


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]


def in_a_loop(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async test as a sync test, which runs on the thread with the connection."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async_to_sync(test)(*args, **kwargs)

    return run


def logs(name: str) -> Callable[[State], State]:
    return lambda state: {"log": [name]}


def build(saver: Saver, **nodes: Any) -> Any:
    graph = StateGraph(State)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph.add_edge(before, END).compile(checkpointer=saver)


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a graph with durability "exit"."""

    def call(graph: Any, value: Any) -> Any:
        return graph.invoke(value, CONFIG, durability="exit")

    async def acall(graph: Any, value: Any) -> Any:
        return await graph.ainvoke(value, CONFIG, durability="exit")

    return call if request.param == "sync" else async_to_sync(acall)


def test_run_with_exit_durability_stores_final_checkpoint_if_last_node_writes_nothing(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    calls = []

    def ask(state: State) -> None:
        calls.append(interrupt("go on?"))

    graph = build(saver, a=logs("a"), ask=ask)
    invoke(graph, {"x": 1})
    invoke(graph, Command(resume="yes"))
    state = graph.get_state(CONFIG)
    assert (state.next, state.interrupts, calls) == ((), (), ["yes"])
    assert invoke(graph, {"x": 2})["x"] == 2


def test_run_with_exit_durability_that_fails_at_conflicting_writes_stores_the_previous_step(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    class One(TypedDict, total=False):
        x: int

    graph = StateGraph(One).add_node("a", lambda state: {"x": 5})
    graph.add_node("b", lambda state: {"x": 6}).add_node("c", lambda state: {"x": 7})
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    compiled = graph.compile(checkpointer=saver)
    with pytest.raises(Exception, match="x"):  # two writes to a channel that accepts one
        invoke(compiled, {"x": 1})
    state = compiled.get_state(CONFIG)
    assert (state.values, state.next) == ({"x": 5}, ("b", "c"))


def test_closing_the_stream_of_a_run_with_exit_durability_stores_the_yielded_steps(
    saver: Saver,
) -> None:
    graph = build(saver, a=logs("a"), b=logs("b"), c=logs("c"))
    stream = graph.stream({"x": 1}, CONFIG, durability="exit", stream_mode="updates")
    assert [next(stream), next(stream)] == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]
    stream.close()
    told = list(graph.stream(None, CONFIG, stream_mode="updates"))
    assert told[-1] == {"c": {"log": ["c"]}}
    assert graph.get_state(CONFIG).values["log"] == ["a", "b", "c"]


@in_a_loop
async def test_closing_the_async_stream_of_a_run_with_exit_durability_stores_the_yielded_steps(
    saver: Saver,
) -> None:
    graph = build(saver, a=logs("a"), b=logs("b"), c=logs("c"))
    stream = graph.astream({"x": 1}, CONFIG, durability="exit", stream_mode="updates")
    assert await anext(stream) == {"a": {"log": ["a"]}}
    assert await anext(stream) == {"b": {"log": ["b"]}}
    await stream.aclose()
    await graph.ainvoke(None, CONFIG)
    state = await graph.aget_state(CONFIG)
    assert state.values["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("siblings", [0, 1])
def test_keyboard_interrupt_in_run_with_exit_durability_stores_finished_steps(
    saver: Saver, siblings: int
) -> None:
    calls: list[str] = []

    def counted(state: State) -> State:
        calls.append("side")
        return {"log": ["side"]}

    def stop(state: State) -> State:
        calls.append("stop")
        if calls.count("stop") == 1:
            raise KeyboardInterrupt
        return {"log": ["stop"]}

    graph = StateGraph(State).add_node("a", logs("a")).add_node("stop", stop)
    graph.add_edge(START, "a").add_edge("a", "stop")
    if siblings:
        graph.add_node("side", counted).add_edge("a", "side")
    compiled = graph.compile(checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        compiled.invoke({"x": 1}, CONFIG, durability="exit")
    state = compiled.get_state(CONFIG)
    assert (state.values["log"], state.next) == (["a", *["side"] * siblings], ("stop",))
    assert compiled.invoke(None, CONFIG)["log"] == ["a", *["side"] * siblings, "stop"]
    assert calls.count("side") == siblings


@in_a_loop
async def test_cancelled_run_with_exit_durability_stores_finished_steps(saver: Saver) -> None:
    started = asyncio.Event()
    calls: list[str] = []

    async def waits(state: State) -> State:
        calls.append("waits")
        if calls.count("waits") == 1:
            started.set()
            await asyncio.Event().wait()
        return {"log": ["waits"]}

    async def side(state: State) -> State:
        calls.append("side")
        return {"log": ["side"]}

    graph = StateGraph(State).add_node("a", logs("a"))
    graph.add_node("side", side).add_node("waits", waits)
    graph.add_edge(START, "a").add_edge("a", "side").add_edge("a", "waits")
    compiled = graph.compile(checkpointer=saver)
    running = asyncio.ensure_future(compiled.ainvoke({"x": 1}, CONFIG, durability="exit"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    state = await compiled.aget_state(CONFIG)
    assert (state.values["log"], state.next) == (["a", "side"], ("waits",))
    await compiled.ainvoke(None, CONFIG)
    state = await compiled.aget_state(CONFIG)
    assert state.values["log"] == ["a", "side", "waits"]
    assert calls.count("side") == 1


def test_run_with_exit_durability_stores_no_checkpoints_of_finished_subgraph(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    below = StateGraph(State).add_node("b", logs("b")).add_edge(START, "b").compile()
    graph = build(saver, a=logs("a"), below=below)
    assert invoke(graph, {"x": 1})["log"] == ["a", "a", "b"]
    places = {stored.config["configurable"]["checkpoint_ns"] for stored in saver.list(CONFIG)}
    assert places == {""}
