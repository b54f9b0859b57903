"""Exceptions that leave a node: exception groups, exits, cancellations and external errors."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from hitl_django import Command, StateGraph, entrypoint, interrupt, task
from hitl_django.contrib.agents import ToolNode
from hitl_django.engine.errors import InvalidUpdateError, NodeCancelledError, ParentCommand
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.state.messages import MessagesState
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import RetryPolicy

from .graphs import CONFIG, State, line, log_of, saved, side_by_side
from .test_drivers import WAYS, Run


async def ask(key: str) -> Any:
    return interrupt({"title": key}, key=key)


async def raise_error(error: BaseException) -> None:
    raise error


async def in_asyncio_group(state: State) -> dict[str, Any]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(key)) for key in ("a", "b")]
    return {"log": [each.result() for each in asked]}


async def in_anyio_session(state: State) -> dict[str, Any]:
    async with anyio.create_task_group(), asyncio.TaskGroup() as group:
        other = group.create_task(ask("b"))
        return {"log": [await ask("a"), await other]}


def in_raised_group(state: State) -> dict[str, Any]:
    pauses: list[BaseException] = []
    given = []
    for key in ("a", "b"):
        try:
            given.append(interrupt({"title": key}, key=key))
        except BaseException as pause:
            pauses.append(pause)
    if pauses:
        raise BaseExceptionGroup("outer", [BaseExceptionGroup("inner", pauses)])
    return {"log": given}


@WAYS
@pytest.mark.parametrize("node", [in_asyncio_group, in_anyio_session, in_raised_group])
def test_interrupts_raised_in_task_group_pause_run_until_each_has_a_response(
    run: Run, node: Any
) -> None:
    graph = saved(line(a=node))
    run(graph, {"x": 1})
    asked = {one.value["title"]: one.id for one in graph.get_state(CONFIG).interrupts}
    while asked:
        assert set(asked) <= {"a", "b"}
        run(graph, Command(resume={id_: title.upper() for title, id_ in asked.items()}))
        asked = {one.value["title"]: one.id for one in graph.get_state(CONFIG).interrupts}
    assert log_of(graph) == ["A", "B"]


@WAYS
def test_task_group_with_interrupt_and_failure_fails_node_without_pending_interrupt(
    run: Run,
) -> None:
    async def node(state: State) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask("a"))
            group.create_task(raise_error(ConnectionError("no route")))

    graph = saved(line(a=node))
    with pytest.raises(ExceptionGroup) as raised:
        run(graph, {"x": 1})
    assert [repr(each) for each in raised.value.exceptions] == ["ConnectionError('no route')"]
    (seen,) = graph.get_state(CONFIG).tasks
    assert seen.interrupts == ()
    assert "no route" in str(seen.error)


@WAYS
def test_task_group_with_interrupt_and_failure_is_retried_by_retry_policy(run: Run) -> None:
    attempts: list[int] = []

    async def node(state: State) -> dict[str, Any]:
        attempts.append(1)
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ask("a"))
            if len(attempts) == 1:
                group.create_task(raise_error(ConnectionError("no route")))
        return {"log": [asked.result()]}

    policy = RetryPolicy(
        retry_on=lambda error: isinstance(error, ExceptionGroup), initial_interval=0.0001
    )
    graph = saved(StateGraph(State).add_node("a", node, retry_policy=policy).set_entry_point("a"))
    run(graph, {"x": 1})
    assert [one.value["title"] for one in graph.get_state(CONFIG).interrupts] == ["a"]
    assert len(attempts) == 2


@WAYS
def test_exception_group_of_cancelled_errors_raises_node_cancelled_error(run: Run) -> None:
    def node(state: State) -> None:
        raise BaseExceptionGroup("", [asyncio.CancelledError(), asyncio.CancelledError()])

    with pytest.raises(NodeCancelledError, match="Node 'a'"):
        run(saved(line(a=node)), {"x": 1})


@WAYS
@pytest.mark.parametrize("count", [1, 2])
def test_exception_group_applies_one_parent_command_and_rejects_two(run: Run, count: int) -> None:
    async def node(state: State) -> None:
        raise BaseExceptionGroup(
            "", [ParentCommand(Command(graph=Command.PARENT, update={"log": ["up"]}))] * count
        )

    graph = saved(line(outer=saved(line(a=node))))
    if count == 1:
        run(graph, {"x": 1})
        assert log_of(graph) == ["up"]
    else:
        with pytest.raises(InvalidUpdateError, match="2 commands"):
            run(graph, {"x": 1})


class OddError(BaseException):
    """A library error that is not an ``Exception``."""


@WAYS
@pytest.mark.parametrize(
    "error", [SystemExit("bye"), OddError("odd"), BaseExceptionGroup("", [OddError("odd")])]
)
@pytest.mark.parametrize("alone", [True, False])
def test_base_exception_raised_by_node_is_stored_as_task_error(
    run: Run, error: BaseException, alone: bool
) -> None:
    def leave(state: State) -> None:
        raise error

    def rest(state: State) -> dict[str, Any]:
        return {"log": ["b"]}

    graph = saved(line(a=leave) if alone else side_by_side(a=leave, b=rest))
    with pytest.raises(type(error)):
        run(graph, {"x": 1})
    stored = {each.name: each.error for each in graph.get_state(CONFIG).tasks}
    assert stored["a"] == repr(error)


def test_advance_of_node_raising_system_exit_returns_failed_outcome() -> None:
    async def leave(state: State) -> None:
        raise SystemExit(3)

    graph = saved(line(a=leave))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert (outcome.status, repr(outcome.error)) == ("failed", "SystemExit(3)")


@WAYS
def test_interrupts_of_task_functions_in_task_group_pause_until_answered(run: Run) -> None:
    @task
    async def review(key: str) -> Any:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ask(key))
        return asked.result()

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(x: int) -> Any:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_awaited(review(key))) for key in "ab"]
        return [each.result() for each in asked]

    run(flow, 1)
    while asked := flow.get_state(CONFIG).interrupts:
        result = run(flow, Command(resume={one.id: one.value["title"] for one in asked}))
    assert result == ["a", "b"]


async def _awaited(future: Any) -> Any:
    return await future


@WAYS
def test_tool_interrupting_in_task_group_does_not_rerun_finished_sibling_tool(run: Run) -> None:
    def look_up(word: str) -> str:
        return word

    async def buy(item: str) -> str:
        async with anyio.create_task_group():
            return str(interrupt({"title": item}))

    node = ToolNode([look_up, buy])

    def call(name: str, args: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "args": args, "id": name, "type": "tool_call"}

    graph = saved(StateGraph(MessagesState).add_node("tools", node).set_entry_point("tools"))
    calls = [call("buy", {"item": "tea"}), call("look_up", {"word": "x"})]
    run(graph, {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]})
    (asked,) = graph.get_state(CONFIG).interrupts
    result = run(graph, Command(resume={asked.id: "bought"}))
    assert [message.content for message in result["messages"][1:]] == ["bought", "x"]


@WAYS
def test_tool_with_interrupt_and_error_in_task_group_returns_error_message(run: Run) -> None:
    async def buy(item: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask("a"))
            group.create_task(raise_error(LookupError("sold out")))
        return ""

    node = ToolNode([buy], handle_tool_errors=True)
    graph = saved(StateGraph(MessagesState).add_node("tools", node).set_entry_point("tools"))
    calls = [{"name": "buy", "args": {"item": "tea"}, "id": "1", "type": "tool_call"}]
    result = run(graph, {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]})
    assert "sold out" in result["messages"][-1].content


class Timeout(SystemExit):
    """A task queue's timeout."""


class SoftTimeout(Exception):
    """A task queue's timeout that is an Exception."""


@pytest.mark.parametrize("kind", [Timeout, SoftTimeout])
@pytest.mark.parametrize("form", ["sync", "async", "group", "handled", "subgraph", "beside"])
def test_configured_stop_error_calls_on_stop_and_is_not_stored_as_task_error(
    kind: Any, form: str
) -> None:
    stop = kind("time is up")

    def sync(state: State) -> None:
        raise stop

    async def fails(state: State) -> None:
        raise stop

    async def grouped(state: State) -> None:
        raise BaseExceptionGroup("", [stop, ValueError()])

    graph: StateGraph
    if form == "handled":
        graph = StateGraph(State).add_node(
            "a", sync, retry_policy=RetryPolicy(retry_on=kind), error_handler=lambda state: None
        ).set_entry_point("a")  # fmt: skip
    elif form == "subgraph":
        graph = line(outer=line(a=sync).compile())
    elif form == "beside":
        graph = side_by_side(a=sync, b=lambda state: {"log": ["b"]})
    else:
        graph = line(a={"sync": sync, "async": fails, "group": grouped}[form])
    compiled = saved(graph)
    compiled.submit({"x": 1}, CONFIG)
    control, noted = RunControl(), list[Any]()
    control.stop_errors += (kind,)
    control.on_stop = lambda error, nodes: noted.append((error, list(nodes)))
    with pytest.raises((kind, BaseExceptionGroup)):
        compiled.advance(CONFIG, control=control)
    (once,) = noted
    assert "a" in once[1]
    assert all(each.error is None for each in compiled.get_state(CONFIG).tasks)
