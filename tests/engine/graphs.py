"""Small graphs that several tests use."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

from typing_extensions import TypedDict

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.memory import InMemorySaver

CONFIG = {"configurable": {"thread_id": "thread"}}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list, operator.add]


def says(name: str, **also: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [name], **also}


def asks(*payloads: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [interrupt(payload) for payload in payloads]}


def line(**nodes: Any) -> StateGraph:
    """Return a graph with sequential nodes."""
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for one, other in pairwise([START, *nodes]):
        graph.add_edge(one, other)
    return graph


def side_by_side(**nodes: Any) -> StateGraph:
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph


def saved(graph: StateGraph, saver: Any = None, **options: Any) -> Pregel:
    return graph.compile(InMemorySaver() if saver is None else saver, **options)


def paused(graph: StateGraph, **options: Any) -> Pregel:
    compiled = saved(graph, **options)
    compiled.invoke({"x": 1}, CONFIG)
    return compiled


def log_of(graph: Pregel) -> list[Any]:
    return list(graph.get_state(CONFIG).values.get("log", []))


def open_interrupts(graph: Pregel) -> dict[Any, str]:
    return {asked.value: asked.id for asked in graph.get_state(CONFIG).interrupts}


def answer(graph: Pregel, value: Any) -> Any:
    return graph.invoke(Command(resume=value), CONFIG)
