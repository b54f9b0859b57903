"""Groups of errors and exits that leave nodes of LangGraph's graphs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from langgraph.graph import START as FOREIGN_START
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.types import interrupt as foreign_interrupt
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, services, testing
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db

Registered = Callable[[Any], None]


class State(TypedDict, total=False):
    out: Any


async def ask(title: str) -> Any:
    return foreign_interrupt({"title": title})


async def in_group(state: State) -> dict[str, Any]:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(ask("a"))
    return {"out": asked.result()}


async def in_session(state: State) -> dict[str, Any]:
    async with anyio.create_task_group(), anyio.create_task_group():
        return {"out": foreign_interrupt({"title": "a"})}


def in_raised_group(state: State) -> dict[str, Any]:
    try:
        return {"out": foreign_interrupt({"title": "a"})}
    except Exception as pause:
        raise ExceptionGroup("", [pause]) from None


async def beside_failure(state: State) -> None:
    async def fail() -> None:
        raise LookupError("no such thing")

    async with asyncio.TaskGroup() as group:
        group.create_task(ask("a"))
        group.create_task(fail())


def build(node: Any) -> Any:
    return ForeignStateGraph(State).add_node("n", node).add_edge(FOREIGN_START, "n")


@pytest.fixture
def hosted() -> Iterator[Callable[[Any], str]]:
    """Register a graph and start a run of it."""

    def start(graph: Any) -> str:
        if isinstance(graph, StateGraph):
            registry.register("hosted")(lambda: graph)
        else:
            register_langgraph("hosted")(lambda: graph)
        return str(services.start("hosted", {}).id)

    with testing.inline():
        yield start
    registry.unregister("hosted")


@pytest.mark.parametrize(
    ("node", "place"),
    [
        *itertools.product([in_group, in_session, in_raised_group], ["node", "subgraph"]),
        (in_raised_group, "below"),
    ],
)
def test_pause_in_task_group_of_hosted_graph_is_a_pause(
    hosted: Callable[[Any], str], node: Any, place: str
) -> None:
    graph = build(node)
    if place == "subgraph":
        graph = build(build(node).compile())
    elif place == "below":
        graph = StateGraph(State).add_node("n", build(node).compile()).add_edge(START, "n")
    run_id = hosted(graph)
    runner.advance(run_id)
    asked = Interrupt.objects.get()
    assert (Run.objects.get().state, asked.payload["title"]) == ("interrupted", "a")
    services.decide(asked.pk, "respond", value="yes")
    runner.advance(run_id)
    assert Run.objects.get().error == ""
    assert services.run_result(run_id)["out"] == "yes"


@pytest.mark.parametrize(
    ("node", "named"),
    [
        (beside_failure, "LookupError: no such thing"),
        (lambda state: exit("bye"), "SystemExit: bye"),
    ],
)
def test_failure_that_is_no_plain_exception_is_named(
    hosted: Callable[[Any], str], node: Any, named: str
) -> None:
    runner.advance(hosted(build(node)))
    run = Run.objects.get()
    assert run.state == "failed"
    assert named in run.error
    assert not Interrupt.objects.exists()
