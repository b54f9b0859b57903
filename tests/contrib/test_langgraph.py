"""LangGraph graphs as nodes: their interrupts, stored state and responses."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver
from langgraph.graph import StateGraph as TheirGraph
from langgraph.types import Send as TheirSend
from langgraph.types import interrupt as their_interrupt
from typing_extensions import TypedDict

from hitl_django import START, Command, StateGraph, decide, register, start, testing
from hitl_django.contrib.langgraph.node_saver import NodeSaver
from hitl_django.engine.errors import InvalidUpdateError, NoSaverError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from tests.checkpoints.test_conformance import saver
from tests.reading import values_of

__all__ = ["saver"]

CONFIG = {"configurable": {"thread_id": "t"}}
PLACE = {"thread_id": "t", "checkpoint_ns": ""}
Saver = BaseCheckpointSaver


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


class Own(State, total=False):
    """A state with a key that the graph above doesn't have."""

    note: str


runs: list[str] = []


@pytest.fixture(autouse=True)
def forget_runs() -> None:
    runs.clear()


def first(state: Own) -> Own:
    runs.append("first")
    return {"log": ["first"], "note": "kept"}


def ask(state: Own) -> Own:
    return {"log": [f"{their_interrupt('one?')} {their_interrupt('two?')} {state['note']}"]}


def foreign(checkpointer: Any = None) -> Any:
    """Return a LangGraph graph that interrupts twice in sequence."""
    graph = TheirGraph(Own).add_node("first", first).add_node("ask", ask)
    return graph.add_edge("__start__", "first").add_edge("first", "ask").compile(checkpointer)


def above(graph: Any, saver: Saver | None = None) -> Any:
    ours = StateGraph(State).add_node("agent", graph)
    ours.add_node("end", lambda state: {"log": ["end"]})
    return ours.add_edge(START, "agent").add_edge("agent", "end").compile(checkpointer=saver)


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def acall(graph: Any, value: Any) -> Any:
        return await graph.ainvoke(value, CONFIG)

    if request.param == "sync":
        return lambda graph, value: graph.invoke(value, CONFIG)
    return async_to_sync(acall)


def asked(result: Any) -> list[Any]:
    return [interrupt.value for interrupt in result["__interrupt__"]]


@pytest.mark.parametrize("checkpointer", [None, TheirSaver()], ids=["none", "its own"])
def test_langgraph_graph_as_node_interrupts_and_resumes_with_each_checkpointer(
    saver: Saver, invoke: Callable[..., Any], checkpointer: Any
) -> None:
    graph = above(foreign(checkpointer), saver)
    assert asked(invoke(graph, {"x": 1})) == ["one?"]
    assert graph.get_state(CONFIG).next == ("agent",)
    assert asked(invoke(above(foreign(checkpointer), saver), Command(resume="1"))) == ["two?"]
    result = invoke(above(foreign(checkpointer), saver), Command(resume="2"))
    assert result == {"x": 1, "log": ["first", "1 2 kept", "end"]}
    assert runs == ["first"]


def test_langgraph_subgraph_checkpoint_is_stored_after_the_checkpoint_of_its_parent(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    put = NodeSaver.put

    def noted(self: Any, *args: Any) -> Any:
        stored = put(self, *args)
        above = self._perform(lambda: list(saver.list({"configurable": PLACE})))
        seen.append([found.metadata["step"] for found in above])
        return stored

    monkeypatch.setattr(NodeSaver, "put", noted)
    graph = above(foreign(), saver)
    assert asked(graph.invoke({"x": 1}, CONFIG, durability="exit")) == ["one?"]
    assert seen
    assert {tuple(steps) for steps in seen} == {(0,)}


def test_langgraph_graph_as_node_has_subgraph_state_in_get_state(saver: Saver) -> None:
    graph = above(foreign(), saver)
    graph.invoke({"x": 1}, CONFIG)
    (task,) = graph.get_state(CONFIG, subgraphs=True).tasks
    assert task.state.values == {"x": 1, "log": ["first"], "note": "kept"}
    assert task.state.next == ("ask",)


def test_langgraph_graph_as_node_returns_parallel_interrupts_together(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    def each(state: Own) -> list[TheirSend]:
        return [TheirSend("ask", {"n": n}) for n in (1, 2)]

    theirs = TheirGraph(Own).add_node("ask", lambda sent: {"log": [their_interrupt(sent["n"])]})
    theirs.add_conditional_edges("__start__", each, ["ask"])
    graph = above(theirs.compile(), saver)
    result = invoke(graph, {"x": 1})
    assert sorted(asked(result)) == [1, 2]
    answers = {interrupt.id: f"to {interrupt.value}" for interrupt in result["__interrupt__"]}
    assert invoke(graph, Command(resume=answers))["log"] == ["to 1", "to 2", "end"]


def test_langgraph_graph_nested_twice_interrupts_and_resumes(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    middle = TheirGraph(Own).add_node("below", foreign()).add_edge("__start__", "below").compile()
    graph = above(middle, saver)
    assert asked(invoke(graph, {"x": 1})) == ["one?"]
    assert asked(invoke(graph, Command(resume="1"))) == ["two?"]
    assert invoke(graph, Command(resume="2"))["log"] == ["first", "1 2 kept", "end"]
    assert runs == ["first"]


def test_langgraph_graph_as_node_resumes_at_its_failed_node(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    def flaky(state: Own) -> Own:
        runs.append("flaky")
        if runs.count("flaky") == 1:
            raise OSError("down")
        return {"log": ["flaky"]}

    theirs = TheirGraph(Own).add_node("first", first).add_node("flaky", flaky)
    theirs.add_edge("__start__", "first").add_edge("first", "flaky")
    graph = above(theirs.compile(), saver)
    with pytest.raises(OSError, match="down"):
        invoke(graph, {"x": 1})
    assert invoke(graph, None)["log"] == ["first", "flaky", "end"]
    assert runs == ["first", "flaky", "flaky"]


def test_langgraph_graph_as_node_interrupting_without_saver_raises_error_for_missing_saver(
    invoke: Callable[..., Any],
) -> None:
    with pytest.raises(NoSaverError, match="agent"):
        invoke(above(foreign()), {"x": 1})


def test_node_returning_interrupts_of_a_langgraph_call_raises_invalid_update_error(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    theirs = foreign(TheirSaver())
    own = {"configurable": {"thread_id": "its own"}}
    graph = above(lambda state: theirs.invoke(state, own), saver)
    with pytest.raises(
        InvalidUpdateError, match=r"'agent' returned the interrupts of another graph"
    ):
        invoke(graph, {"x": 1})


def test_langgraph_graph_as_node_with_static_breakpoint_raises_runtime_error(
    saver: Saver, invoke: Callable[..., Any]
) -> None:
    theirs = TheirGraph(Own).add_node("first", first).add_edge("__start__", "first")
    graph = above(theirs.compile(interrupt_before=["first"]), saver)
    with pytest.raises(
        RuntimeError, match=r"stopped at a static breakpoint before first.*interrupt\(\)"
    ):
        invoke(graph, {"x": 1})
    assert runs == []
    assert invoke(graph, None)["log"] == ["first", "end"]


@pytest.mark.django_db
def test_run_with_langgraph_graph_as_node_succeeds_after_decisions_in_review_queue() -> None:
    register("foreign")(lambda: above(foreign()))
    try:
        with testing.inline() as advance:
            run = start("foreign", {"x": 1})
            for number in (1, 2):
                advance()
                interrupt = Interrupt.objects.get(run=run.id, status="pending")
                decide(interrupt.pk, "respond", f"{number}")
            advance()
        found = Run.objects.get(pk=run.id)
        assert found.state == "succeeded"
        assert values_of(found.thread)["log"] == ["first", "1 2 kept", "end"]
        assert runs == ["first"]
    finally:
        registry.unregister("foreign")


@pytest.mark.django_db
def test_langgraph_node_with_four_interrupts_resumes_after_each_decision() -> None:
    def often(state: Own) -> Own:
        return {"log": [" ".join(their_interrupt(f"{n}?") for n in range(4))]}

    theirs = TheirGraph(Own).add_node("ask", often).add_edge("__start__", "ask").compile()
    register("often")(lambda: above(theirs))
    try:
        with testing.inline() as advance:
            run = start("often", {"x": 1})
            for number in range(4):
                advance()
                interrupt = Interrupt.objects.get(run=run.id, status="pending")
                assert interrupt.payload == f"{number}?"
                decide(interrupt.pk, "respond", f"{number}")
            advance()
        assert values_of(Run.objects.get(pk=run.id).thread)["log"] == ["0 1 2 3", "end"]
    finally:
        registry.unregister("often")
