"""The drawing returned by ``get_graph``: the nodes and edges of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from ..constants import END, START
from ..loop.compiled_graph import CompiledGraph
from . import mermaid
from .elements import BETWEEN, DrawnEdge, DrawnNode
from .outline import Kind, Outline, OutlineEdge, OutlineNode, build_outline
from .picture import Picture, lay_out_graph, lay_out_outline
from .png import render_png
from .text_drawing import write_text

#: Kinds of edges declared by the graph.
_DECLARED = ("always", "maybe")
_KINDS: dict[str, Kind] = {START: "start", END: "end"}


def _refuse_picture() -> Picture:
    raise ValueError("Expected a graph drawing. Use graph.get_graph().")


@dataclass(slots=True)
class Drawing:
    """The nodes of a graph by id, and its edges.

    The methods that add and remove nodes and edges change only the drawing, not the graph.
    """

    nodes: dict[str, DrawnNode] = field(default_factory=dict)
    edges: list[DrawnEdge] = field(default_factory=list)
    #: Computes the layout of the graph as a picture.
    lay_out: Callable[[], Picture] = field(default=_refuse_picture, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def next_id(self) -> str:
        return uuid4().hex

    def add_node(
        self, data: Any, id: str | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> DrawnNode:
        """Add a node and return it.

        Without an ``id``, the node gets a unique id, and is named after ``data``: a function, a
        class or a Runnable.

        Raises:
            ValueError: the drawing has a node with this id.
        """
        if id is not None and id in self.nodes:
            raise ValueError(f"Node with id {id} already exists")
        key = id or self.next_id()
        self.nodes[key] = node = DrawnNode(key, id or _get_name(data) or key, data, metadata)
        self.lay_out = self._lay_out_flat
        return node

    def remove_node(self, node: DrawnNode) -> None:
        """Remove a node and its edges."""
        del self.nodes[node.id]
        self.edges[:] = [edge for edge in self.edges if node.id not in (edge.source, edge.target)]
        self.lay_out = self._lay_out_flat

    def add_edge(
        self,
        source: DrawnNode,
        target: DrawnNode,
        data: str | None = None,
        conditional: bool = False,
    ) -> DrawnEdge:
        """Add an edge and return it.

        Raises:
            ValueError: ``source`` or ``target`` isn't a node of the drawing.
        """
        for end, node in (("Source", source), ("Target", target)):
            if node.id not in self.nodes:
                raise ValueError(f"{end} node {node.id} not in graph")
        edge = DrawnEdge(source.id, target.id, data, conditional)
        self.edges.append(edge)
        self.lay_out = self._lay_out_flat
        return edge

    def extend(
        self, graph: Drawing, *, prefix: str = ""
    ) -> tuple[DrawnNode | None, DrawnNode | None]:
        """Add the nodes and edges of ``graph``. Return the first and the last node of ``graph``.

        The first node is the only node without incoming edges, and the last node is the only node
        without outgoing edges. If several nodes qualify, or none, None is returned instead. With a
        ``prefix``, ids of added nodes start with ``prefix:``. An added node replaces a node with
        the same id.
        """
        added = graph._with_ids(lambda old: f"{prefix}{BETWEEN}{old}" if prefix else old)
        self.nodes.update(added.nodes)
        self.edges.extend(added.edges)
        self.lay_out = self._lay_out_flat
        return added.first_node(), added.last_node()

    def reid(self) -> Drawing:
        """Return a copy in which the names of nodes replace their generated ids.

        Nodes with the same name are numbered.
        """
        counts = Counter(node.name for node in self.nodes.values())
        seen: Counter[str] = Counter()
        ids: dict[str, str] = {}
        for node in self.nodes.values():
            seen[node.name] += 1
            unique = node.name if counts[node.name] == 1 else f"{node.name}_{seen[node.name]}"
            ids[node.id] = unique if _is_generated(node.id) else node.id
        return self._with_ids(ids.__getitem__)

    def _with_ids(self, rename: Callable[[str], str]) -> Drawing:
        nodes = {rename(id): node.copy(id=rename(id)) for id, node in self.nodes.items()}
        edges = [
            edge.copy(source=rename(edge.source), target=rename(edge.target)) for edge in self.edges
        ]
        twin = Drawing(nodes, edges)
        twin.lay_out = twin._lay_out_flat
        return twin

    def _lay_out_flat(self) -> Picture:
        """Return the picture of this drawing, without boxes around the nodes of subgraphs.

        The picture isn't computed from the graph, because the drawing may have been changed.
        """
        if not self.nodes:
            return _refuse_picture()
        nodes = [
            OutlineNode(
                node.id,
                _KINDS.get(node.name, "node"),
                stops=(node.metadata or {}).get("__interrupt", ""),
            )
            for node in self.nodes.values()
        ]
        edges = [
            OutlineEdge(
                edge.source,
                edge.target,
                "" if edge.data is None else str(edge.data),
                "maybe" if edge.conditional else "always",
            )
            for edge in self.edges
        ]
        return lay_out_outline(Outline(tuple(nodes), tuple(edges)))

    def first_node(self) -> DrawnNode | None:
        """Return the only node without incoming edges, or None."""
        return _sole(self, {edge.target for edge in self.edges})

    def last_node(self) -> DrawnNode | None:
        """Return the only node without outgoing edges, or None."""
        return _sole(self, {edge.source for edge in self.edges})

    def trim_first_node(self) -> None:
        """Remove the first node if it has only one edge. The next node becomes the first node.

        If the removal would result in several first nodes, nothing is removed.
        """
        first = self.first_node()
        if first is not None and len(self._list_edges(first, "source")) == 1:
            others = {edge.target for edge in self.edges if edge.source != first.id}
            if _sole(self, others, first.id):
                self.remove_node(first)

    def trim_last_node(self) -> None:
        """Remove the last node if it has only one edge. The previous node becomes the last node.

        If the removal would result in several last nodes, nothing is removed.
        """
        last = self.last_node()
        if last is not None and len(self._list_edges(last, "target")) == 1:
            others = {edge.source for edge in self.edges if edge.target != last.id}
            if _sole(self, others, last.id):
                self.remove_node(last)

    def _list_edges(self, node: DrawnNode, end: str) -> set[DrawnEdge]:
        return {edge for edge in self.edges if getattr(edge, end) == node.id}

    def draw_mermaid(self, *, with_styles: bool = True, **styles: Any) -> str:
        """Return the drawing as a Mermaid flowchart.

        Other arguments of LangGraph's method are accepted and ignored.
        """
        return mermaid.write_flowchart(self.nodes, self.edges, with_styles)

    def draw_ascii(self) -> str:
        """Return the drawing as ASCII art."""
        return write_text(self.lay_out())

    def print_ascii(self) -> None:
        """Print the drawing as ASCII art."""
        print(self.draw_ascii())  # noqa: T201 - its purpose

    def draw_png(
        self, output_file_path: str | None = None, *, background_color: str | None = "white"
    ) -> bytes:
        """Return the drawing as a PNG image.

        The image is also written to ``output_file_path``, if given. Creating the image requires
        cairosvg (the extra ``draw``), but no server.
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
        """Return the drawing as a PNG image, like ``draw_png``. Mermaid's server isn't called.

        Other arguments of LangGraph's method, which configure Mermaid's server or style, are
        accepted and ignored.
        """
        return self.draw_png(output_file_path, background_color=background_color)

    def to_json(self, *, with_schemas: bool = False) -> dict[str, list[dict[str, Any]]]:
        """Return the nodes and edges as JSON values.

        ``with_schemas`` is accepted for compatibility with LangChain and has no effect.
        """
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
    """Return the drawing of a graph.

    If ``xray`` is True, the nodes of each subgraph replace the node that calls the subgraph. If
    ``xray`` is a number, this applies to that number of levels of subgraphs.
    """
    drawing = _flat(build_outline(graph, xray))
    drawing.lay_out = partial(lay_out_graph, graph, xray=xray)
    return drawing


def _flat(outline: Outline) -> Drawing:
    drawing = Drawing()
    entries: dict[str, str] = {}
    exits: dict[str, str] = {}
    below: list[DrawnEdge] = []
    for node in outline.nodes:
        if node.inside is None:
            drawing.nodes[node.name] = DrawnNode(node.name, node.name, metadata=_metadata(node))
            continue
        inner = _flat(node.inside)
        inner.trim_first_node()
        inner.trim_last_node()
        prefix = node.name + BETWEEN
        drawing.nodes.update(
            (
                prefix + one.id,
                one.copy(id=prefix + one.id),
            )
            for one in inner.nodes.values()
        )
        below += [
            edge.copy(source=prefix + edge.source, target=prefix + edge.target)
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


def _get_name(data: Any) -> str | None:
    if hasattr(data, "get_name"):
        return str(data.get_name()).removeprefix("Runnable")
    return getattr(data, "__name__", None)


def _is_generated(id: str) -> bool:
    try:
        UUID(id)
    except ValueError:
        return False
    return True


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

    ``xray`` is True for subgraphs of all levels, or the maximum number of levels.
    """
    return build_drawing(graph, xray).draw_mermaid()
