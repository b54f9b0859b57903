"""Graphs called by nodes: stored state and responses to their interrupts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from typing_extensions import TypedDict

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.channels import UntrackedValue
from hitl_django.engine.errors import ThreadNotFound, UnknownInterruptError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.types import Send

from .test_conformance import saver

__all__ = ["saver"]

CONFIG = {"configurable": {"thread_id": "t"}}
Saver = BaseCheckpointSaver


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


class Secret(State, total=False):
    secret: Annotated[Any, UntrackedValue]


class Connection:
    """Value that can't be stored."""


def asking(payload: str) -> Callable[[State], State]:
    return lambda state: {"log": [interrupt(payload)]}


def graph_of(saver: Saver | None = None, **nodes: Any) -> Any:
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph.compile(checkpointer=saver)


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def acall(graph: Any, value: Any, config: Any) -> Any:
        return await graph.ainvoke(value, config)

    if request.param == "sync":
        return lambda graph, value, config: graph.invoke(value, config)
    return async_to_sync(acall)


def place_of(graph: Any, *names: str) -> Any:
    state = graph.get_state(CONFIG, subgraphs=True)
    for name in names:
        state = next(task.state for task in state.tasks if task.name == name)
    return state.config


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_resume_in_namespace_of_nested_subgraph_answers_its_interrupt(
    saver: Saver, invoke: Callable[..., Any], depth: int, by_id: bool
) -> None:
    below = graph_of(ask=asking("?"))
    for _ in range(depth - 1):
        below = graph_of(below=below)
    graph = graph_of(saver, below=below)
    invoke(graph, {"x": 1}, CONFIG)
    (payload,) = graph.get_state(CONFIG).interrupts
    place = place_of(graph, *["below"] * depth)
    answer = {payload.id: "yes"} if by_id else "yes"
    assert invoke(graph, Command(resume=answer), place)["log"] == ["yes"]
    state = graph.get_state(CONFIG)
    assert (state.next, state.interrupts, state.values["log"]) == ((), (), ["yes"])


def test_resume_in_namespace_of_one_subgraph_leaves_interrupt_of_second_subgraph_pending(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    graph = graph_of(saver, a=graph_of(ask=asking("a?")), b=graph_of(ask=asking("b?")))
    invoke(graph, {"log": []}, CONFIG)
    asked = invoke(graph, Command(resume="to b"), place_of(graph, "b"))["__interrupt__"]
    assert [payload.value for payload in asked] == ["a?"]
    assert invoke(graph, Command(resume="to a"), place_of(graph, "a"))["log"] == ["to a", "to b"]


def test_resume_in_subgraph_namespace_with_id_of_another_namespace_raises_unknown_interrupt_error(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    graph = graph_of(saver, a=graph_of(ask=asking("a?")), b=graph_of(ask=asking("b?")))
    invoke(graph, {"log": []}, CONFIG)
    of_a = next(q for q in graph.get_state(CONFIG).interrupts if q.value == "a?")
    place = place_of(graph, "b")
    before = graph.get_state(CONFIG, subgraphs=True)
    with pytest.raises(UnknownInterruptError, match=of_a.id):
        invoke(graph, Command(resume={of_a.id: "yes"}), place)
    assert graph.get_state(CONFIG, subgraphs=True) == before


def test_resume_at_missing_subgraph_checkpoint_raises_thread_not_found(saver: Saver) -> None:
    graph = graph_of(saver, below=graph_of(ask=asking("?")))
    graph.invoke({"x": 1}, CONFIG)
    place = place_of(graph, "below")["configurable"]
    ns = place["checkpoint_ns"]
    gone = "1f000000-0000-6000-8000-000000000000"
    place = {**place, "checkpoint_map": {**place["checkpoint_map"], ns: gone}}
    with pytest.raises(ThreadNotFound, match=gone):
        graph.invoke(Command(resume="yes"), {"configurable": place})
    assert len(graph.get_state(CONFIG).interrupts) == 1


def test_send_repeated_after_resume_passes_state_without_unstored_channels(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    seen: list[list[str]] = []

    def ask(state: Secret) -> Secret:
        seen.append(sorted(state))
        return {"log": [interrupt("?")]}

    graph = StateGraph(Secret).add_node("open", lambda state: {"secret": Connection()})
    graph.add_node("ask", ask).add_edge(START, "open")
    graph.add_conditional_edges("open", lambda state: [Send("ask", state)], ["ask"])
    compiled = graph.compile(checkpointer=saver)
    invoke(compiled, {"x": 1}, CONFIG)
    result = invoke(compiled, Command(resume="yes"), CONFIG)
    assert result["log"] == ["yes"]
    assert seen == [["log", "secret", "x"], ["log", "x"]]


class Holder:
    """Holds a graph that an inspection of the function doesn't find."""

    def __init__(self, graph: Any) -> None:
        self.inner = {"graph": graph}

    def call(self, state: State) -> State:
        found: State = self.inner["graph"].invoke({"x": state["x"]})
        return found


def wrapped(graph: Any) -> Callable[[State], State]:
    """Return a function around a function that calls the graph."""

    def call(state: State) -> State:
        found: State = graph.invoke({"x": state["x"]})
        return found

    @wraps(call)
    def around(*args: Any, **kwargs: Any) -> State:
        return around.__wrapped__(*args, **kwargs)  # type: ignore[no-any-return]

    return around


HIDDEN: dict[str, Callable[[Any], Callable[[State], State]]] = {
    "method": lambda graph: Holder(graph).call,
    "dict": lambda graph: partial(lambda graphs, state: graphs["a"].invoke(state), {"a": graph}),
    "wrapped": wrapped,
}


@pytest.mark.parametrize("way", HIDDEN)
def test_get_state_with_subgraphs_contains_subgraph_state_for_every_way_of_calling_the_subgraph(
    saver: Saver, way: str
) -> None:
    below = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    below.add_node("ask", asking("?")).add_edge(START, "first").add_edge("first", "ask")
    graph = graph_of(saver, node=HIDDEN[way](below.compile()))
    graph.invoke({"x": 1}, CONFIG)
    (task,) = graph.get_state(CONFIG, subgraphs=True).tasks
    assert task.state is not None
    assert (task.state.values, task.state.next) == ({"x": 1, "log": ["first"]}, ("ask",))
    assert [payload.value for payload in task.state.interrupts] == ["?"]

    place = task.state.config
    at_place = graph.get_state({"configurable": {**place["configurable"], "checkpoint_id": None}})
    assert at_place.values == task.state.values
    whole = {"thread_id": "t", "checkpoint_ns": place["configurable"]["checkpoint_ns"]}
    history = list(graph.get_state_history({"configurable": whole}))
    assert [record.values.get("log", []) for record in history][:2] == [["first"], []]

    async def read() -> Any:
        return await graph.aget_state(CONFIG, subgraphs=True)

    assert async_to_sync(read)().tasks[0].state.values == task.state.values
    assert graph.invoke(Command(resume="yes"), place)["log"] == ["first", "yes"]


def test_get_state_in_namespace_without_checkpoint_raises_value_error(saver: Saver) -> None:
    graph = graph_of(saver, node=HIDDEN["method"](graph_of(ask=asking("?"))))
    graph.invoke({"x": 1}, CONFIG)
    with pytest.raises(ValueError, match="Subgraph nowhere not found"):
        graph.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": "nowhere:1"}})
    place = graph.get_state(CONFIG, subgraphs=True).tasks[0].state.config
    with pytest.raises(ValueError, match="Subgraph node not found"):
        graph.update_state(place, {"x": 2})


def test_aget_subgraphs_lists_same_names_as_get_subgraphs() -> None:
    async def names(graph: Any) -> list[str]:
        return [name async for name, _ in graph.aget_subgraphs(recurse=True)]

    graph = graph_of(a=graph_of(b=graph_of(ask=asking("?"))))
    found = [name for name, _ in graph.get_subgraphs(recurse=True)]
    assert async_to_sync(names)(graph) == found == ["a", "a|b"]
