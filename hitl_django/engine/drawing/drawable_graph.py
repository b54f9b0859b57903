"""The drawing returned by ``get_graph``: lists of nodes and edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..constants import END, START
from ..loop.compiled_graph import CompiledGraph
from . import mermaid
from .elements import BETWEEN, DrawnEdge, DrawnNode
from .outline import Outline, OutlineNode, build_outline
from .picture import Picture, lay_out_graph
from .png import render_png
from .text_drawing import write_text

#: Kinds of edges declared by the graph.
_DECLARED = ("always", "maybe")


def _refuse_picture() -> Picture:
    raise ValueError("Expected a graph drawing. Use graph.get_graph().")


@dataclass(frozen=True, slots=True)
class Drawing:
    """The nodes of a graph by id, and its edges."""

    nodes: dict[str, DrawnNode] = field(default_factory=dict)
    edges: list[DrawnEdge] = field(default_factory=list)
    #: Computes the layout of the graph as a picture.
    lay_out: Callable[[], Picture] = field(default=_refuse_picture, repr=False, compare=False)

    def first_node(self) -> DrawnNode | None:
        """Return the only node without incoming edges, or None."""
        return _sole(self, {edge.target for edge in self.edges})

    def last_node(self) -> DrawnNode | None:
        """Return the only node without outgoing edges, or None."""
        return _sole(self, {edge.source for edge in self.edges})

    def trim_first_node(self) -> None:
        """Remove the first node if it has one edge, whose target can become the first node."""
        first = self.first_node()
        if first is not None and len(self._list_edges(first, "source")) == 1:
            others = {edge.target for edge in self.edges if edge.source != first.id}
            if _sole(self, others, first.id):
                self._remove(first)

    def trim_last_node(self) -> None:
        """Remove the last node if it has one edge, whose source can become the last node."""
        last = self.last_node()
        if last is not None and len(self._list_edges(last, "target")) == 1:
            others = {edge.source for edge in self.edges if edge.target != last.id}
            if _sole(self, others, last.id):
                self._remove(last)

    def _list_edges(self, node: DrawnNode, end: str) -> set[DrawnEdge]:
        return {edge for edge in self.edges if getattr(edge, end) == node.id}

    def _remove(self, node: DrawnNode) -> None:
        del self.nodes[node.id]
        self.edges[:] = [edge for edge in self.edges if node.id not in (edge.source, edge.target)]

    def draw_mermaid(self, *, with_styles: bool = True) -> str:
        """Return the graph as a Mermaid flowchart."""
        return mermaid.write_flowchart(self.nodes, self.edges, with_styles)

    def draw_ascii(self) -> str:
        """Return the graph as ASCII art."""
        return write_text(self.lay_out())

    def print_ascii(self) -> None:
        """Print the graph as ASCII art."""
        print(self.draw_ascii())  # noqa: T201 - its purpose

    def draw_png(
        self, output_file_path: str | None = None, *, background_color: str | None = "white"
    ) -> bytes:
        """Return the graph as a PNG image, and optionally write it to a file.

        The image is created locally and requires cairosvg (the extra ``draw``).
        """
        image = render_png(self.lay_out(), background_color)
        if output_file_path is not None:
            Path(output_file_path).write_bytes(image)
        return image

    def draw_mermaid_png(
        self,
        *,
        output_file_path: str | None = None,
        background_color: str | None = "white",
        **styles: Any,
    ) -> bytes:
        """Return the graph as a PNG image, like draw_png, without calling Mermaid's server.

        Other arguments of LangGraph's method are accepted and ignored. They configure Mermaid's
        server or style.
        """
        return self.draw_png(output_file_path, background_color=background_color)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return the nodes and edges as plain JSON."""
        nodes: list[dict[str, Any]] = [
            {"id": node.id, "name": node.name}
            | ({"metadata": dict(node.metadata)} if node.metadata else {})
            for node in self.nodes.values()
        ]
        edges: list[dict[str, Any]] = [
            {"source": edge.source, "target": edge.target}
            | ({"data": edge.data} if edge.data is not None else {})
            | ({"conditional": True} if edge.conditional else {})
            for edge in self.edges
        ]
        return {"nodes": nodes, "edges": edges}


def build_drawing(graph: CompiledGraph, xray: int | bool = False) -> Drawing:
    """Return the drawing of a graph: its nodes and edges.

    ``xray`` replaces nodes that call subgraphs with the nodes of these subgraphs. True replaces
    nodes at all levels; a number sets the maximum depth.
    """
    drawing = _flat(build_outline(graph, xray))
    return replace(drawing, lay_out=partial(lay_out_graph, graph, xray=xray))


def _flat(outline: Outline) -> Drawing:
    drawing = Drawing()
    entries: dict[str, str] = {}
    exits: dict[str, str] = {}
    below: list[DrawnEdge] = []
    for node in outline.nodes:
        if node.inside is None:
            drawing.nodes[node.name] = DrawnNode(node.name, node.name, _metadata(node))
            continue
        inner = _flat(node.inside)
        inner.trim_first_node()
        inner.trim_last_node()
        prefix = node.name + BETWEEN
        drawing.nodes.update(
            (
                prefix + one.id,
                DrawnNode(prefix + one.id, one.name, one.metadata, (node.name, *one.within)),
            )
            for one in inner.nodes.values()
        )
        below += [
            DrawnEdge(prefix + edge.source, prefix + edge.target, edge.data, edge.conditional)
            for edge in inner.edges
        ]
        first, last = inner.first_node(), inner.last_node()
        entries[node.name] = prefix + (first.id if first else START)
        exits[node.name] = prefix + (last.id if last else END)
    drawing.edges.extend(
        DrawnEdge(
            exits.get(edge.source, edge.source),
            entries.get(edge.target, edge.target),
            edge.label or None,
            edge.leads == "maybe",
        )
        for edge in outline.edges
        if edge.leads in _DECLARED
    )
    drawing.edges.extend(below)
    return drawing


def _metadata(node: OutlineNode) -> Mapping[str, Any] | None:
    described = dict(node.metadata)
    if node.deferred:
        described["defer"] = True
    if node.stops:
        described["__interrupt"] = node.stops
    return described or None


def _sole(drawing: Drawing, taken: set[str], but: str = "") -> DrawnNode | None:
    left = [node for name, node in drawing.nodes.items() if name not in taken and name != but]
    return left[0] if len(left) == 1 else None


def draw_mermaid(graph: CompiledGraph, *, xray: int | bool = True) -> str:
    """Return a graph and its subgraphs as a Mermaid flowchart.

    ``xray`` is True for all levels of subgraphs, or the maximum depth.
    """
    return build_drawing(graph, xray).draw_mermaid()
