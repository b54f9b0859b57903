"""Threads that stopped before a node that was removed from the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import END, Command, StateGraph
from hitl_django.engine.errors import GraphChangedError
from hitl_django.engine.types import Send

from .graphs import CONFIG, State, asks, line, log_of, open_interrupts, paused, saved, says

DISCARDING = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}


def sends(*targets: str) -> StateGraph:
    """Return a graph whose first node sends to the targets, each of which interrupts."""
    graph = line(first=says("first"))
    for target in targets:
        graph.add_node(target, asks(target))
    return graph.add_conditional_edges(
        "first", lambda state: [Send(target, state) for target in targets], list(targets)
    )


def joins(end: str) -> StateGraph:
    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, says(name)).add_edge("__start__", name)
    return graph.add_node(end, asks(end)).add_edge(["a", "b"], end)


BEFORE_AND_AFTER = [
    pytest.param(line(a=asks("q")), line(b=says("b")), "a", id="an edge"),
    pytest.param(sends("w", "v"), sends("v"), "w", id="a Send"),
    pytest.param(joins("c"), joins("d"), "c", id="a join"),
]
WAYS: list[Callable[[Any, Any], Any]] = [
    lambda graph, ids: graph.invoke(None, CONFIG),
    lambda graph, ids: graph.invoke(Command(resume=dict.fromkeys(ids, "yes")), CONFIG),
    lambda graph, ids: graph.invoke(Command(update={"x": 2}), CONFIG),
    lambda graph, ids: graph.advance(CONFIG),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("before", "after", "gone"), BEFORE_AND_AFTER)
def test_resume_after_removal_of_pending_node_raises_graph_changed_error(
    before: StateGraph, after: StateGraph, gone: str, way: Any
) -> None:
    graph = paused(before)
    asked = open_interrupts(graph)
    changed = saved(after, graph.checkpointer)
    with pytest.raises(GraphChangedError, match=f"stopped before '{gone}'") as raised:
        way(changed, asked.values())
    assert raised.value.changes == (f"node '{gone}' was removed",)
    assert open_interrupts(graph) == asked
    answers = dict.fromkeys(asked.values(), "yes")
    assert graph.invoke(Command(resume=answers), CONFIG)["log"][-1] == "yes"


@pytest.mark.parametrize(("before", "after", "gone"), BEFORE_AND_AFTER)
def test_thread_stopped_at_removed_node_continues_after_clear_or_discard_pending(
    before: StateGraph, after: StateGraph, gone: str
) -> None:
    cleared, discarded = paused(before), paused(before)
    graph = saved(after, cleared.checkpointer)
    graph.update_state(CONFIG, None, END)
    assert graph.invoke(None, CONFIG)["x"] == 1
    graph = saved(after, discarded.checkpointer)
    graph.invoke({"x": 3}, DISCARDING)
    if graph.get_state(CONFIG).next:
        graph.invoke(Command(resume="yes"), CONFIG)
    assert graph.get_state(CONFIG).next == ()
    assert log_of(graph)


def test_resume_after_removal_of_finished_parallel_node_raises_graph_changed_error() -> None:
    graph = StateGraph(State).add_node("a", says("a")).add_node("q", asks("q"))
    graph = paused(graph.add_edge("__start__", "a").add_edge("__start__", "q"))
    changed = saved(line(q=asks("q")), graph.checkpointer)
    with pytest.raises(GraphChangedError, match="stopped before 'a'"):
        changed.invoke(Command(resume="yes"), CONFIG)
