"""What a graph looks like: its nodes and edges, as a text for Mermaid, and laid out on a plane."""

from __future__ import annotations

from .drawable_graph import Drawing, DrawnEdge, DrawnNode, drawing_of
from .mermaid import draw_mermaid
from .outline import Outline, OutlineEdge, OutlineNode, outline_of
from .picture import Picture, PlacedEdge, PlacedNode, picture

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
    "draw_mermaid",
    "drawing_of",
    "outline_of",
    "picture",
]
