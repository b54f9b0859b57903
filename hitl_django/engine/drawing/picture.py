"""A graph with a layout: nodes with position and size, and edges with their points.

A subgraph is drawn inside the box of the node that calls it. The unit of all lengths is 1/13 of the
font size. Positions depend only on the graph's names and structure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..constants import END, START
from ..loop.compiled_graph import CompiledGraph
from .elements import BETWEEN
from .layout.layout import Plane, Point, Wire, lay_out
from .layout.text_size import LETTER, LINE, LONGEST, Say, break_lines, measure_text
from .outline import Kind, Leads, Outline, OutlineEdge, OutlineNode, build_outline

MARGIN, PAD_X, PAD_Y, BOX_PAD = 12.0, 18.0, 10.0, 16.0
#: The space for the mark of a node's state in the node's corner.
MARK = 20.0
LEAST = 72.0
DOT = 22.0


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node with its upper left corner and size.

    ``holds`` is true if its box contains other nodes.
    """

    id: str
    name: str
    kind: Kind
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    holds: bool = False
    deferred: bool = False
    stops: str = ""
    chooses: bool = False


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    """An edge with its points, ordered from source to target."""

    source: str
    target: str
    label: str
    leads: Leads
    points: tuple[Point, ...]
    back: bool = False
    label_at: Point | None = None
    #: The label, truncated to the available space.
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The elements of a picture. A box comes before the nodes inside it."""

    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]


def lay_out_graph(graph: CompiledGraph, *, xray: int | bool = True, say: Say = str) -> Picture:
    """Return the picture of a graph, with the positions of nodes and edges.

    ``xray`` is True for subgraphs of all levels, or the maximum number of levels. ``say`` converts
    a name to the displayed text, which determines the width of a node.
    """
    return lay_out_outline(build_outline(graph, xray), say)


def lay_out_outline(outline: Outline, say: Say = str) -> Picture:
    """Return the picture of an outline. ``say`` converts a name to the displayed text."""
    drawn = _compose(outline, "", say)
    return Picture(
        drawn.width + 2 * MARGIN,
        drawn.height + 2 * MARGIN,
        tuple(_moved_nodes(drawn.nodes, MARGIN, MARGIN)),
        tuple(_moved_edges(drawn.edges, MARGIN, MARGIN)),
    )


def _compose(outline: Outline, prefix: str, say: Say) -> Picture:
    numbers = {node.name: number for number, node in enumerate(outline.nodes)}
    inner = [
        _compose(node.inside, prefix + node.name + BETWEEN, say) if node.inside else None
        for node in outline.nodes
    ]
    lines = [_lines(node, say) for node in outline.nodes]
    sizes = [
        _size(node, text, inner_picture)
        for node, text, inner_picture in zip(outline.nodes, lines, inner, strict=True)
    ]
    edges = _combine_parallel(outline.edges)
    shown = [_cut(say(edge.label)) for edge in edges]
    wires = [
        Wire(numbers[edge.source], numbers[edge.target], _label_width(text))
        for edge, text in zip(edges, shown, strict=True)
    ]
    plane = lay_out(sizes, wires)
    nodes, held_edges = _nodes(outline, prefix, lines, sizes, inner, plane)
    drawn = [
        PlacedEdge(
            prefix + edge.source,
            prefix + edge.target,
            edge.label,
            edge.leads,
            tuple(wire.points),
            wire.back,
            wire.label_at,
            text,
        )
        for edge, wire, text in zip(edges, wires, shown, strict=True)
    ]
    return Picture(plane.width, plane.height, tuple(nodes), (*drawn, *held_edges))


def _nodes(
    outline: Outline,
    prefix: str,
    lines: list[tuple[str, ...]],
    sizes: list[Point],
    inner: list[Picture | None],
    plane: Plane,
) -> tuple[list[PlacedNode], list[PlacedEdge]]:
    nodes: list[PlacedNode] = []
    edges: list[PlacedEdge] = []
    for number, node in enumerate(outline.nodes):
        (width, height), (x, y), inner_picture = sizes[number], plane.middles[number], inner[number]
        left, top = x - width / 2, y - height / 2
        nodes.append(
            PlacedNode(
                prefix + node.name,
                node.name,
                node.kind,
                lines[number],
                left,
                top,
                width,
                height,
                inner_picture is not None,
                node.deferred,
                node.stops,
                node.chooses,
            )
        )
        if inner_picture is not None:
            dx = left + (width - inner_picture.width) / 2
            dy = top + height - inner_picture.height - BOX_PAD
            nodes += _moved_nodes(inner_picture.nodes, dx, dy)
            edges += _moved_edges(inner_picture.edges, dx, dy)
    return nodes, edges


def _lines(node: OutlineNode, say: Say) -> tuple[str, ...]:
    return () if node.name in (START, END) else break_lines(say(node.name))


def _size(node: OutlineNode, lines: tuple[str, ...], inner_picture: Picture | None) -> Point:
    if node.kind != "node":
        return DOT, DOT
    text = max(measure_text(line) for line in lines)
    width = max(LEAST, text + 2 * PAD_X + MARK)
    height = len(lines) * LINE + 2 * PAD_Y
    if inner_picture is None:
        return width, height
    return max(width, inner_picture.width + 2 * BOX_PAD), height + inner_picture.height + BOX_PAD


def _combine_parallel(edges: Iterable[OutlineEdge]) -> list[OutlineEdge]:
    """Merge edges with the same source and target into one edge that has all labels."""
    labels: dict[tuple[str, str, Leads], list[str]] = {}
    for edge in edges:
        labels.setdefault((edge.source, edge.target, edge.leads), []).append(edge.label)
    return [
        OutlineEdge(source, target, " / ".join(filter(None, answers)), leads)
        for (source, target, leads), answers in labels.items()
    ]


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def _label_width(text: str) -> float:
    return measure_text(text) + 2 * LETTER if text else 0.0


def _moved_nodes(nodes: Iterable[PlacedNode], dx: float, dy: float) -> list[PlacedNode]:
    return [replace(node, x=node.x + dx, y=node.y + dy) for node in nodes]


def _moved_edges(edges: Iterable[PlacedEdge], dx: float, dy: float) -> list[PlacedEdge]:
    return [
        replace(
            edge,
            points=tuple((x + dx, y + dy) for x, y in edge.points),
            label_at=None
            if edge.label_at is None
            else (edge.label_at[0] + dx, edge.label_at[1] + dy),
        )
        for edge in edges
    ]
