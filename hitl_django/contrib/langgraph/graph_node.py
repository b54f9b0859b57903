"""A compiled LangGraph graph as a node of an engine graph.

Interrupts of the LangGraph graph become interrupts of the node.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from langgraph.types import Command

from hitl_django.contrib.langchain import add_handler
from hitl_django.db.node_connections import close_node_connections
from hitl_django.engine.constants import INTERRUPT
from hitl_django.engine.drivers.thread_pool import MAX_THREADS
from hitl_django.engine.task.context import (
    TaskContext,
    astore_steps,
    current,
    saver_calls,
    store_steps,
)
from hitl_django.engine.task.node_api import get_context, interrupt
from hitl_django.engine.task.nodes import Action

from .cross_thread_calls import CrossThreadCalls
from .forwarded_interrupts import ask_all
from .graph_adapter import needs_event_loop
from .node_saver import NodeSaver
from .resolved_groups import resolve_groups
from .task_contexts import GraphNodeContext
from .tool_call_ids import ToolCallIds
from .whole_channels import store_channels_whole

#: Coordinates of the parent run. The graph must not inherit them.
_COORDINATES = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


def build_graph_action(graph: Any) -> Action:
    """Return the action of a node that calls a compiled LangGraph graph.

    The saver of the calling run stores the graph's state in the namespace of the task. The
    checkpointer with which the graph was compiled isn't used. Each interrupt has the same id in
    both graphs. The graph resumes when all interrupts have responses.
    """

    whole = store_channels_whole(graph)

    def call(value: Any) -> Any:
        context = get_context()
        return _invoke(context, whole, value)

    async def acall(value: Any) -> Any:
        context = get_context()
        return await _ainvoke(context, whole, value)

    sync = Action(call, name=graph.name, source=graph)
    return Action(acall, is_async=True, sync=sync, name=graph.name, source=graph)


def _invoke(context: TaskContext, graph: Any, value: Any) -> Any:
    if context.run.saver is None:
        return _refuse_pause(_find_invoke(graph, graph)(value, _build_config(context, graph)))
    # The graph stores each of its super-steps, which depend on the parent graph's checkpoint.
    store_steps(context)
    calls = CrossThreadCalls(partial(_perform, context))
    mine = _bind(context, graph, calls.ask)
    found = _find_invoke(graph, mine)
    config = _build_config(context, graph)

    def invoke(*args: Any, **options: Any) -> Any:
        # The graph's nodes run on OS threads that end with the call.
        with close_node_connections(), _set_context(context):
            return found(*args, **options)

    state = calls.serve(partial(mine.get_state, config))
    while True:
        given = _choose_input(value, state)
        if given is _OVER:
            return state.values
        output = calls.serve(partial(invoke, given, config, durability="sync"))
        state = calls.serve(partial(mine.get_state, config))
        if not state.next:
            return output
        _refuse_breakpoint(context, state)


@contextmanager
def _set_context(context: TaskContext) -> Iterator[None]:
    """Inside the block, let code in the LangGraph graph use the context of the calling task.

    Each task and each tool call of the LangGraph graph gets a separate part of this context.
    """
    token = current.set(cast(TaskContext, GraphNodeContext(context, context.perform)))
    try:
        yield
    finally:
        current.reset(token)


def _find_invoke(source: Any, graph: Any) -> Callable[..., Any]:
    """Return a sync function that calls ``graph`` and returns its result.

    ``source`` is ``graph`` itself or, if ``graph`` is a copy, the original graph. If ``source``
    needs an event loop, the returned function creates an event loop.
    """
    if not needs_event_loop(source):
        return cast(Callable[..., Any], graph.invoke)
    return lambda *args, **options: asyncio.run(graph.ainvoke(*args, **options))


def _perform(context: TaskContext, function: Callable[..., Any], *args: Any) -> Any:
    with saver_calls():
        return context.perform(function, *args)


async def _ainvoke(context: TaskContext, graph: Any, value: Any) -> Any:
    config = _build_config(context, graph)
    if context.run.saver is None:
        return _refuse_pause(await graph.ainvoke(value, config))
    await astore_steps(context)
    mine = _bind(context, graph, context.perform)
    state = await mine.aget_state(config)
    while True:
        given = _choose_input(value, state)
        if given is _OVER:
            return state.values
        with close_node_connections(), _set_context(context):
            output = await mine.ainvoke(given, config, durability="sync")
        state = await mine.aget_state(config)
        if not state.next:
            return output
        _refuse_breakpoint(context, state)


_OVER = object()


def _choose_input(value: Any, state: Any) -> Any:
    """Return the input for the graph, or ``_OVER`` if the graph has already ended.

    If no state is stored, the input is ``value``, the input of the node. If the state has
    interrupts, the input contains their resume values. If an interrupt has no response yet, the
    node pauses.
    """
    if state.interrupts:
        return Command(resume=ask_all(state.interrupts))
    if state.created_at is None:
        return value
    return None if state.next else _OVER


def _bind(context: TaskContext, graph: Any, perform: Callable[..., Any]) -> Any:
    """Return a copy of the graph with a saver that stores the state in the task's namespace.

    ``perform`` calls a function of the run's saver.
    """

    async def aperform(function: Callable[..., Any], *args: Any) -> Any:
        with saver_calls():
            if context.is_async:
                return await context.run.saver.acall(function, *args)  # type: ignore[union-attr]
            return await asyncio.to_thread(perform, function, *args)

    twin = copy.copy(resolve_groups(graph))
    saver: Any = context.run.saver
    twin.checkpointer = NodeSaver(saver, context.child_ns(), perform, aperform)
    return twin


def _build_config(context: TaskContext, graph: Any) -> Any:
    """Return the task's config for the graph, without the task's namespace and checkpoint id.

    The thread id is the id of the run's thread.
    """
    config = context.config()
    own = config.get("configurable", {})
    kept = {name: value for name, value in own.items() if name not in _COORDINATES}
    thread = context.run.thread_id
    callbacks = add_handler(config.get("callbacks"), ToolCallIds())
    built = {**config, "configurable": {**kept, "thread_id": thread}, "callbacks": callbacks}
    if built.get("max_concurrency") == 1 and _is_functional(graph):
        # The stream of a functional graph occupies an OS thread, and so does a task that calls
        # another task.
        built["max_concurrency"] = MAX_THREADS
    return built


def _is_functional(graph: Any) -> bool:
    return graph.stream_eager or any(
        below.stream_eager for _, below in graph.get_subgraphs(recurse=True)
    )


def _refuse_breakpoint(context: TaskContext, state: Any) -> None:
    """Raise an error if a graph has stopped at a breakpoint.

    Breakpoints aren't supported in a graph that is a node, because resuming the node would skip the
    breakpoint.
    """
    if not state.interrupts:
        raise RuntimeError(
            f"The graph of node '{context.task.name}' stopped at a static breakpoint "
            f"before {', '.join(state.next)}, which no one can answer. Use interrupt() "
            "instead."
        )


def _refuse_pause(result: Any) -> Any:
    """Raise an error if a graph that stores no state has raised interrupts.

    Without stored state, the graph couldn't resume.
    """
    if isinstance(result, dict) and result.get(INTERRUPT):
        interrupt(result[INTERRUPT][0].value)
    return result
