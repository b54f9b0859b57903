"""Exception groups with errors and exits in nodes of LangGraph graphs."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import START as FOREIGN_START
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.pregel import Pregel as ForeignPregel
from langgraph.pregel._call import identifier
from langgraph.types import Command, RetryPolicy
from langgraph.types import interrupt as foreign_interrupt
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, services, testing
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.contrib.langgraph.resolved_groups import _build_resolving_function
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
        (in_group, "below"),
        (in_raised_group, "below"),
    ],
)
def test_interrupt_raised_in_task_group_of_langgraph_node_pauses_and_resumes_the_run(
    hosted: Callable[[Any], str], node: Any, place: str
) -> None:
    graph = build(node)
    if place == "subgraph":
        graph = build(build(node).compile())
    elif place == "below":
        graph = StateGraph(State).add_node("n", build(node).compile()).add_edge(START, "n")
    run_id = hosted(graph)
    runner.advance(run_id)
    assert Run.objects.get().error == ""
    asked = Interrupt.objects.get()
    assert (Run.objects.get().state, asked.payload["title"]) == ("interrupted", "a")
    services.decide(asked.pk, "respond", value="yes")
    runner.advance(run_id)
    assert Run.objects.get().error == ""
    assert services.run_result(run_id)["out"] == "yes"


# Tasks of functional graphs


@task
async def ask_in_group(*titles: str) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(title)) for title in titles]
    return [one.result() for one in asked]


@task
async def ask_in_session(title: str) -> Any:
    async with anyio.create_task_group(), anyio.create_task_group():
        return foreign_interrupt({"title": title})


@task(name="renamed", retry_policy=RetryPolicy(retry_on=Exception, initial_interval=0.001))
def ask_in_raised_group(title: str) -> Any:
    try:
        return foreign_interrupt({"title": title})
    except Exception as pause:
        raise ExceptionGroup("", [pause]) from None


@task
async def ask_below(title: str) -> Any:
    return await ask_in_session(title)


@task
async def fail_beside_pause() -> None:
    await beside_failure({})


@entrypoint()
async def awaited_failure(value: Any) -> None:
    await fail_beside_pause()


@entrypoint()
async def awaited_pauses(value: Any) -> Any:
    return {"out": await ask_in_group("a", "b")}


async def in_wide_group(state: State) -> dict[str, Any]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(title)) for title in "ab"]
    return {"out": [one.result() for one in asked]}


async def leave(state: State) -> Command[Any]:
    return Command(graph=Command.PARENT, update={"out": "left"})


async def leave_in_group(state: State) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(build(leave).compile().ainvoke({}))


@entrypoint()
def called_from_sync(value: Any) -> Any:
    return {"out": ask_in_raised_group("a").result()}


@entrypoint()
async def called_from_async(value: Any) -> Any:
    return {"out": await ask_in_raised_group("a")}


@entrypoint()
async def awaited_in_session(value: Any) -> Any:
    return {"out": await ask_in_session("a")}


@entrypoint()
async def awaited_below(value: Any) -> Any:
    return {"out": await ask_below("a")}


@entrypoint()
async def awaited_in_group(value: Any) -> Any:
    async def call() -> Any:
        return await ask_in_session("a")

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(call())
    return {"out": asked.result()}


async def calls_task(state: State) -> dict[str, Any]:
    return {"out": await ask_in_session("a")}


@pytest.mark.parametrize("place", ["graph", "subgraph", "below"])
@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(called_from_sync, id="sync"),
        pytest.param(called_from_async, id="async"),
        pytest.param(awaited_in_session, id="session"),
        pytest.param(awaited_below, id="nested"),
        pytest.param(awaited_in_group, id="group"),
        pytest.param(build(calls_task).compile(), id="node"),
    ],
)
def test_interrupt_raised_in_task_group_of_functional_task_pauses_and_resumes_the_run(
    hosted: Callable[[Any], str], graph: Any, place: str
) -> None:
    if place == "subgraph":
        graph = build(graph)
    elif place == "below":
        graph = StateGraph(State).add_node("n", graph).add_edge(START, "n")
    run_id = hosted(graph)
    runner.advance(run_id)
    assert Run.objects.get().error == ""
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
        (awaited_failure, "LookupError: no such thing"),
    ],
)
def test_error_of_run_failed_by_exception_group_or_system_exit_names_the_original_exception(
    hosted: Callable[[Any], str], node: Any, named: str
) -> None:
    runner.advance(hosted(node if isinstance(node, ForeignPregel) else build(node)))
    run = Run.objects.get()
    assert run.state == "failed"
    assert named in run.error
    assert not Interrupt.objects.exists()


@pytest.mark.parametrize("graph", [build(in_wide_group), awaited_pauses], ids=["node", "task"])
def test_two_interrupts_in_a_task_group_are_pending_one_after_another(
    hosted: Callable[[Any], str], graph: Any
) -> None:
    run_id = hosted(graph)
    for title in "ab":
        runner.advance(run_id)
        asked = Interrupt.objects.get(status="pending")
        assert asked.payload["title"] == title
        services.decide(asked.pk, "respond", value=title.upper())
    runner.advance(run_id)
    assert services.run_result(run_id)["out"] == ["A", "B"]


def test_parent_command_raised_in_a_task_group_is_applied_to_the_parent(
    hosted: Callable[[Any], str],
) -> None:
    run_id = hosted(build(build(leave_in_group).compile()))
    runner.advance(run_id)
    assert Run.objects.get().error == ""
    assert services.run_result(run_id)["out"] == "left"


def test_functional_task_made_from_partial_has_name_and_cache_key_of_its_function() -> None:
    called = functools.partial(ask_in_group.func, "a")
    wrapped = _build_resolving_function(called)
    assert wrapped.__name__ == "ask_in_group"
    assert identifier(wrapped) == identifier(called)
