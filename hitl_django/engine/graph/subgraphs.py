"""Detection of the subgraphs of a compiled graph, without running the graph."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from ..bridges import find_langchain, is_of_langchain
from ..constants import NS_END, NS_SEP
from ..loop.compiled_graph import CompiledGraph
from ..task.nodes import Action, is_own_graph

#: A variable and the attributes read from it, in order, as in ``agent.graph.invoke``.
_Chain = tuple[str, ...]
_READS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def find_called_graph(action: Action | None) -> CompiledGraph | None:
    """Return the graph that a node calls, or None if no call can be detected.

    If the node was added as a graph, return this graph. Otherwise, return the first graph to which
    the node's function refers. The detection covers the function's closure, its globals, and
    attributes read from these variables. A graph called in another way also runs, but its state
    can't be updated through the calling graph.
    """
    if action is None:
        return None
    for value in _iterate_read(action.source):
        graph = value if is_own_graph(value) else getattr(value, "__self__", None)
        if is_own_graph(graph):
            return graph
    return None


def _iterate_read(source: Any) -> Iterator[Any]:
    """Yield the function or graph of a node, and all values to which the function refers."""
    if is_own_graph(source):
        yield source
    elif is_of_langchain(source):
        for step in find_langchain().list_steps(source):
            yield step
            yield from _iterate_values(getattr(step, "func", None))
    else:
        is_function = inspect.isroutine(source)
        yield from _iterate_values(source if is_function else getattr(source, "__call__", None))  # noqa: B004


def _iterate_values(function: Any) -> Iterator[Any]:
    """Yield the values of closure variables and globals that a function reads.

    The values of attributes that the function reads from these variables are also included.
    """
    function = getattr(function, "__func__", function)
    if isinstance(function, FunctionType):
        function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return
    closure: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue  # The variable is not bound yet.
    yield from closure.values()
    of_closure, of_globals = _list_chains(function.__code__)
    for variables, chains in ((closure, of_closure), (function.__globals__, of_globals)):
        for chain in chains:
            yield from _follow(variables, chain)


def _follow(variables: Mapping[str, Any], chain: _Chain) -> Iterator[Any]:
    name, *attributes = chain
    if name not in variables:
        return
    yield (value := variables[name])
    for attribute in attributes:
        try:
            value = getattr(value, attribute)
        except Exception:
            return  # A property may raise any exception.
        yield value


@lru_cache(maxsize=1024)
def _list_chains(code: CodeType) -> tuple[tuple[_Chain, ...], tuple[_Chain, ...]]:
    """Return the closure variables and globals that a function and its inner functions read.

    Each variable is described by a tuple: its name, and the names of the attributes read from it.
    """
    of_closure: dict[_Chain, None] = {}
    of_globals: dict[_Chain, None] = {}
    codes = [code]
    for inner in codes:
        codes += [each for each in inner.co_consts if isinstance(each, CodeType)]
        chain: _Chain = ()
        found = of_globals
        for instruction in dis.get_instructions(inner):
            if instruction.opname in _READS and chain:
                chain = (*chain, instruction.argval)
                continue
            if chain:
                found[chain] = None
            name, chain = instruction.argval, ()
            if instruction.opname == "LOAD_GLOBAL":
                found, chain = of_globals, (name,)
            elif instruction.opname == "LOAD_DEREF":
                found, chain = of_closure, (name,)
    return tuple(of_closure), tuple(of_globals)


def iterate_subgraphs(
    graph: CompiledGraph, namespace: str | None, recurse: bool, _above: tuple[int, ...] = ()
) -> Iterator[tuple[str, CompiledGraph]]:
    """Yield the subgraphs of ``graph``, each with its path of node names.

    If ``namespace`` is given, only the subgraph with this path is yielded. Task ids in
    ``namespace`` are ignored. With ``recurse``, subgraphs of subgraphs are included. Each graph of
    a call cycle is yielded once.
    """
    above = (*_above, id(graph))
    wanted = None if namespace is None else split_path(namespace)
    for name in graph.nodes:
        if wanted is not None and wanted[:1] != (name,):
            continue
        called = graph.subgraph_of(name)
        if called is None:
            continue
        if wanted is None:
            yield name, called
            if recurse and id(called) not in above:
                for below, deeper in iterate_subgraphs(called, None, True, above):
                    yield f"{name}{NS_SEP}{below}", deeper
        elif len(wanted) == 1:
            yield name, called
        elif recurse:
            for below, deeper in iterate_subgraphs(called, NS_SEP.join(wanted[1:]), True, above):
                yield f"{name}{NS_SEP}{below}", deeper


def split_path(ns: str) -> tuple[str, ...]:
    """Return the node names of a namespace, without task ids and call counts."""
    parts = (part.partition(NS_END)[0] for part in ns.split(NS_SEP))
    return tuple(part for part in parts if part and not part.isdigit())
