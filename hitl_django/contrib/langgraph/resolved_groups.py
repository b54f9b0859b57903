"""Handling of exception groups that contain a pause, in LangGraph's nodes and tasks.

LangGraph treats an exception group, as raised by a task group, as a failure.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import set_config_context
from langgraph._internal._constants import (
    CONFIG_KEY_CALL,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_RUNTIME,
)
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.pregel import Pregel as ForeignPregel
from langgraph.pregel._call import get_runnable_for_task, identifier
from langgraph.pregel._read import DEFAULT_BOUND
from langgraph.pregel.remote import RemoteGraph

from hitl_django.engine.errors import InvalidUpdateError, iterate_leaves

from .remote_node import call_remote_graph
from .run_saver import RunSaver
from .saver import BridgedSaver


def resolve_groups(graph: ForeignPregel) -> ForeignPregel:
    """Return a graph that raises pauses instead of exception groups with pauses.

    If a node or task raises an exception group with a pause, the pause is raised. If the group also
    contains failures, a group of the failures is raised. Subgraphs at any depth are included.
    """
    return _resolve(graph, {})


def _resolve(graph: ForeignPregel, known: dict[int, ForeignPregel]) -> ForeignPregel:
    if id(graph) in known:
        return known[id(graph)]
    twin = known[id(graph)] = copy.copy(graph)
    twin.nodes = {
        name: node
        if node.bound is DEFAULT_BOUND
        else node.copy({"bound": _resolve_bound(node.bound, known)})
        for name, node in graph.nodes.items()
    }
    return twin


def _resolve_bound(bound: Any, known: dict[int, ForeignPregel]) -> Any:
    if isinstance(bound, ForeignPregel):
        return _resolve(bound, known)
    return _RemoteNode(bound) if isinstance(bound, RemoteGraph) else _ResolvingNode(bound)


class _RemoteNode(Runnable[Any, Any]):
    """Runnable that calls a remote graph.

    Interrupts of the remote graph become interrupts of the node.
    """

    def __init__(self, graph: RemoteGraph) -> None:
        self.graph, self.name = graph, graph.name
        _copy_identifier(graph, self)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        if not isinstance(config["configurable"].get(CONFIG_KEY_CHECKPOINTER), BridgedSaver):
            return self.graph.invoke(input, config, **kwargs)
        context = config["configurable"][CONFIG_KEY_RUNTIME].context
        with set_config_context(config) as variables:
            return variables.run(call_remote_graph, self.graph, input, config, context)


class _ResolvingNode(Runnable[Any, Any]):
    """Runnable that calls a node, and replaces exception groups as ``_resolve_group`` does."""

    def __init__(self, bound: Any) -> None:
        self.bound, self.name = bound, bound.name
        _copy_identifier(bound, self)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with _resolving(config):
            return self.bound.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with _resolving(config):
            return await self.bound.ainvoke(input, config, **kwargs)


def _call_task(call: Callable[..., Any], function: Any, *args: Any, **options: Any) -> Any:
    """Start a task of the functional API with LangGraph's function ``call``, and return its future.

    An exception group that the task raises is replaced by the result of ``_resolve_group``.
    """
    return call(_build_resolving_function(function), *args, **options)


def _build_resolving_function(function: Any) -> Any:
    if any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):

        @wraps(function)
        async def resolve(*args: Any, **kwargs: Any) -> Any:
            with _resolving(get_config()):
                return await function(*args, **kwargs)
    else:

        @wraps(function)
        def resolve(*args: Any, **kwargs: Any) -> Any:
            with _resolving(get_config()):
                return function(*args, **kwargs)

    # LangGraph's task ids contain the name.
    resolve.__name__ = get_runnable_for_task(function).name or resolve.__name__
    _copy_identifier(function, resolve)
    return resolve


def _copy_identifier(source: Any, target: Any) -> None:
    """Copy the identifier that LangGraph uses in cache keys to another object."""
    module, _, name = (identifier(source) or "").partition(".")
    target.__module__ = module or None
    if name:
        target.__qualname__ = name


@contextmanager
def _resolving(config: Any) -> Iterator[None]:
    """Replace an exception group raised inside the block by the result of ``_resolve_group``.

    ``config`` is the config of the node or task that runs in the block. Exception groups of tasks
    that this node or task calls are also replaced.
    """
    values = config["configurable"]
    values[CONFIG_KEY_CALL] = partial(_call_task, values[CONFIG_KEY_CALL])
    try:
        yield
    except GraphInterrupt as pause:
        raise _complete_pause(values, pause) from None
    except BaseExceptionGroup as group:
        resolved = _resolve_group(group)
        if resolved is group:
            raise
        if isinstance(resolved, GraphInterrupt):
            resolved = _complete_pause(values, resolved)
        raise resolved from group


def _complete_pause(values: Any, pause: GraphInterrupt) -> GraphInterrupt:
    """Return the pause of a task, with the interrupts of all tools that the task has called."""
    saver = values.get(CONFIG_KEY_CHECKPOINTER)
    return saver.task_contexts.find_pause(values, pause) if isinstance(saver, RunSaver) else pause


def _resolve_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception to raise instead of an exception group.

    If the group contains failures, the result is a group of the failures. Otherwise, the result is
    a pause with all interrupts in the group, or another GraphBubbleUp of LangGraph. Cancellations
    are left out, unless the group contains nothing else.
    """
    signals, failures = group.split(GraphBubbleUp)
    failed = failures and failures.split(asyncio.CancelledError)[1]
    if failed or signals is None:
        return failed or group
    leaves = tuple(iterate_leaves(signals))
    pauses = [leaf for leaf in leaves if isinstance(leaf, GraphInterrupt)]
    if pauses:
        # All interrupts of a task have the same id, and the first interrupt gets the next resume
        # value.
        asked: dict[str, Any] = {}
        for one in (one for pause in pauses for one in pause.args[0]):
            asked.setdefault(one.id, one)
        return GraphInterrupt(tuple(asked.values()))
    if all(isinstance(leaf, ParentCommand) for leaf in leaves) and len(leaves) > 1:
        return InvalidUpdateError("A node raised several commands for a graph above it at once.")
    return leaves[0]
