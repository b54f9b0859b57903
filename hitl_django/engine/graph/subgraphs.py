"""Subgraphs of a compiled graph, as far as they can be seen without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ..constants import NS_END, NS_SEP
from ..loop.compiled_graph import CompiledGraph
from ..task.nodes import Action


def find_called_graph(action: Action | None) -> CompiledGraph | None:
    """Returns the graph that a node is, or whose name its function mentions.

    Sees the function's closure and the globals it names. A graph reached in another way runs as
    well, but its state is not shown with its caller's.
    """
    if action is None:
        return None
    source = action.source
    if _is_graph(source):
        return source  # type: ignore[no-any-return]
    function = source if inspect.isfunction(source) else getattr(source, "__call__", None)  # noqa: B004
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    for value in _mentioned(function, code):
        if _is_graph(value):
            return value  # type: ignore[no-any-return]
    return None


def _is_graph(value: Any) -> bool:
    return getattr(value, "reads_context", False) is True and not isinstance(value, type)


def _mentioned(function: Any, code: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # the name isn't bound yet
    for name in code.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def iterate_subgraphs(
    graph: CompiledGraph, namespace: str | None, recurse: bool
) -> Iterator[tuple[str, CompiledGraph]]:
    """Yields the graphs that ``graph`` calls by their path of node names.

    ``namespace`` selects one path; a namespace with task ids is read without them.
    """
    wanted = None if namespace is None else split_path(namespace)
    for name in graph.nodes:
        if wanted is not None and wanted[:1] != (name,):
            continue
        called = graph.subgraph_of(name)
        if called is None:
            continue
        if wanted is None:
            yield name, called
            if recurse:
                for below, deeper in iterate_subgraphs(called, None, True):
                    yield f"{name}{NS_SEP}{below}", deeper
        elif len(wanted) == 1:
            yield name, called
        elif recurse:
            for below, deeper in iterate_subgraphs(called, NS_SEP.join(wanted[1:]), True):
                yield f"{name}{NS_SEP}{below}", deeper


def split_path(ns: str) -> tuple[str, ...]:
    """Returns the node names in a namespace, without task ids and call counts."""
    parts = (part.partition(NS_END)[0] for part in ns.split(NS_SEP))
    return tuple(part for part in parts if part and not part.isdigit())
