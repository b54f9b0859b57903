"""Nodes of LangGraph that raise the pause that a group of errors stands for.

LangGraph takes the group that a task group raises for a failure of the node.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph._internal._runnable import Runnable  # type: ignore[attr-defined]
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.pregel import Pregel as ForeignPregel
from langgraph.pregel._call import identifier
from langgraph.pregel._read import DEFAULT_BOUND

from hitl_django.engine.errors import InvalidUpdateError, iterate_leaves


def resolve_groups(graph: ForeignPregel) -> ForeignPregel:
    """Return a graph in which no node, at any depth, raises a group that contains a pause."""
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
    return _resolve(bound, known) if isinstance(bound, ForeignPregel) else _ResolvingNode(bound)


class _ResolvingNode(Runnable[Any, Any]):
    """Calls what a node calls."""

    def __init__(self, bound: Any) -> None:
        self.bound, self.name = bound, bound.name
        # LangGraph's key of a cached result: the function's, as without this class.
        if path := identifier(bound):
            self.__module__, _, self.__qualname__ = path.partition(".")

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with _resolving():
            return self.bound.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with _resolving():
            return await self.bound.ainvoke(input, config, **kwargs)


@contextmanager
def _resolving() -> Iterator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        resolved = _resolve_group(group)
        if resolved is group:
            raise
        raise resolved from group


def _resolve_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error or signal that a group stands for; failures count before pauses."""
    signals, failures = group.split(GraphBubbleUp)
    if failures is not None or signals is None:
        return failures or group
    leaves = tuple(iterate_leaves(signals))
    pauses = [leaf for leaf in leaves if isinstance(leaf, GraphInterrupt)]
    if pauses:
        asked = {one.id: one for pause in pauses for one in pause.args[0]}
        return GraphInterrupt(tuple(asked.values()))
    if all(isinstance(leaf, ParentCommand) for leaf in leaves) and len(leaves) > 1:
        return InvalidUpdateError("A node raised several commands for a graph above it at once.")
    return leaves[0]
