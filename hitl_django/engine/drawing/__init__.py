"""Drawings of a graph: nodes and edges, Mermaid text, and a picture with a layout."""

from __future__ import annotations

from .drawable_graph import Drawing, build_drawing, draw_mermaid
from .elements import DrawnEdge, DrawnNode
from .outline import Outline, OutlineEdge, OutlineNode, build_outline
from .picture import Picture, PlacedEdge, PlacedNode, lay_out_graph

__all__ = [
    "Drawing",
    "DrawnEdge",
    "DrawnNode",
    "Outline",
    "OutlineEdge",
    "OutlineNode",
    "Picture",
    "PlacedEdge",
    "PlacedNode",
    "build_drawing",
    "build_outline",
    "draw_mermaid",
    "lay_out_graph",
]
