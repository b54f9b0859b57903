"""The outline of a graph: its nodes, its edges, and its subgraphs.

The outline is derived from the compiled graph, which isn't run. If a conditional edge declares no
targets, ``chooses`` is true for its source node, and all nodes without incoming edges are assumed
to be targets of the conditional edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..channels import LastValueAfterFinish, NamedBarrierValueAfterFinish
from ..constants import END, START
from ..loop.compiled_graph import CompiledGraph
from ..loop.error_handlers import get_handler_name
from ..task.nodes import Node

Kind = Literal["start", "node", "end"]
Leads = Literal["always", "maybe", "on_error", "guessed"]

_WAITS = (LastValueAfterFinish, NamedBarrierValueAfterFinish)
#: The maximum number of assumed edges. More edges would make the drawing unreadable.
_GUESSES = 60


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A node of the outline.

    ``stops`` are the node's breakpoints. ``inside`` is the outline of the subgraph that the node
    calls, or None.
    """

    name: str
    kind: Kind = "node"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    deferred: bool = False
    stops: str = ""
    chooses: bool = False
    inside: Outline | None = None


@dataclass(frozen=True, slots=True)
class OutlineEdge:
    """An edge between two nodes.

    ``label`` is the return value for which a conditional edge is followed, or None.
    """

    source: str
    target: str
    label: str = ""
    leads: Leads = "always"


@dataclass(frozen=True, slots=True)
class Outline:
    """The edges of a graph, and its nodes in order of definition."""

    nodes: tuple[OutlineNode, ...]
    edges: tuple[OutlineEdge, ...]


def build_outline(
    graph: CompiledGraph, depth: int | bool = True, _above: tuple[int, ...] = ()
) -> Outline:
    """Return the outline of a compiled graph and its subgraphs.

    ``depth`` is the maximum number of levels of subgraphs, or True for all levels. A graph that
    calls itself appears only once in the outline.
    """
    above = (*_above, id(graph))
    listeners = _map_triggers_to_nodes(graph)
    handlers = {node.handler for node in graph.nodes.values()}
    edges: dict[OutlineEdge, None] = {}
    nodes = []
    for name, node in graph.nodes.items():
        leads = dict.fromkeys(_list_edges(graph, name, node, listeners))
        if name != START and name not in handlers:
            leads |= _find_end_edge(name, leads)
        edges.update(leads)
        if name != START:
            nodes.append(_node(graph, name, node, depth, above))
    if START not in graph.nodes:
        inputs = (
            (graph.input_channels,)
            if isinstance(graph.input_channels, str)
            else graph.input_channels
        )
        first = [name for channel in inputs for name in listeners.get(channel, ())]
        edges = {**{OutlineEdge(START, name): None for name in first}, **edges}
    every = (OutlineNode(START, "start"), *nodes, OutlineNode(END, "end"))
    return Outline(every, (*edges, *_guess_edges(every, edges)))


def _node(
    graph: CompiledGraph, name: str, node: Node, depth: int | bool, above: tuple[int, ...]
) -> OutlineNode:
    called = graph.subgraph_of(name) if depth else None
    inside = None
    if called is not None and id(called) not in above:
        inside = build_outline(called, depth if depth is True else depth - 1, above)
    return OutlineNode(
        name,
        metadata=node.metadata,
        deferred=any(isinstance(graph.channels.get(t), _WAITS) for t in node.triggers),
        stops=_stops(graph, name),
        chooses=any(branch.ends is None for branch in node.branches),
        inside=inside,
    )


def _stops(graph: CompiledGraph, name: str) -> str:
    moments = [
        word
        for word, names in (
            ("before", graph.interrupt_before_nodes),
            ("after", graph.interrupt_after_nodes),
        )
        if names == "*" or name in names
    ]
    return ",".join(moments)


def _map_triggers_to_nodes(graph: CompiledGraph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, node in graph.nodes.items():
        for trigger in node.triggers:
            found.setdefault(trigger, []).append(name)
    return found


def _list_edges(
    graph: CompiledGraph, name: str, node: Node, listeners: Mapping[str, list[str]]
) -> Iterator[OutlineEdge]:
    for writer in node.writers:
        for channel, _ in _list_static_writes(writer):
            for target in listeners.get(channel, ()):
                yield OutlineEdge(name, target)
    for branch in node.branches:
        for answer, target in (branch.ends or {}).items():
            yield OutlineEdge(name, target, "" if answer == target else str(answer), "maybe")
    for target, label in _command_ends(graph, name).items():
        yield OutlineEdge(name, target, label or "", "maybe")
    if node.handler is not None and node.handler == get_handler_name(name):
        yield OutlineEdge(name, node.handler, "", "on_error")


def _list_static_writes(writer: Any) -> Sequence[tuple[str, Any]]:
    return getattr(writer, "static", None) or getattr(writer, "writes", None) or ()


def _command_ends(graph: CompiledGraph, name: str) -> Mapping[str, str | None]:
    builder = getattr(graph, "builder", None)
    spec = None if builder is None else builder.nodes.get(name)
    return dict(spec.ends) if spec is not None and spec.ends else {}


def _find_end_edge(name: str, leads: Mapping[OutlineEdge, None]) -> dict[OutlineEdge, None]:
    """Return the edge from the node ``name`` to END as a dict, or an empty dict if there is none.

    ``leads`` are the declared edges of the node. The run can end after the node if no declared edge
    leads to another node. Edges to error handlers don't count.
    """
    ways = [edge.target for edge in leads if edge.leads != "on_error"]
    if any(target != name for target in ways):
        return {}
    return {OutlineEdge(name, END, "", "maybe" if ways else "always"): None}


def _guess_edges(
    nodes: tuple[OutlineNode, ...], edges: Mapping[OutlineEdge, None]
) -> list[OutlineEdge]:
    reached = {edge.target for edge in edges}
    choosing = [node.name for node in nodes if node.chooses]
    lost = [node.name for node in nodes if node.kind == "node" and node.name not in reached]
    if len(choosing) * len(lost) > _GUESSES:
        return []
    return [
        OutlineEdge(source, target, "", "guessed")
        for source in choosing
        for target in lost
        if source != target
    ]
