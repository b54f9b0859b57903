"""Graphs as flowcharts in Mermaid's syntax.

All names and labels are quoted, because labels of conditional edges may contain any text.
Characters with a meaning in Mermaid or HTML are written as entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from ..constants import END, START
from .elements import DrawnEdge, DrawnNode

#: Matches names that are valid ids. Other nodes get a numbered id.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYWORDS = frozenset(
    {
        "call", "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph",
        "href", "linkstyle", "style", "subgraph",
    }
)  # fmt: skip
_UNSAFE = re.compile(r"[^\w .,:+*/=?!()\[\]{}'-]")

STYLES = (
    "  classDef start fill:none,stroke-dasharray:3 2",
    "  classDef end_ fill:none,stroke-width:2px",
    "  classDef stops stroke-width:3px",
)


def write_flowchart(
    nodes: Mapping[str, DrawnNode], edges: Iterable[DrawnEdge], with_styles: bool = True
) -> str:
    """Return nodes and edges as a Mermaid flowchart."""
    numbers = count(1)
    ids = {
        node: node
        if _PLAIN.fullmatch(node) and node.lower() not in _KEYWORDS
        else f"n{next(numbers)}_"
        for node in nodes
    }
    lines = ["flowchart TD", *_boxes(nodes.values(), ids, with_styles)]
    lines += [_arrow(edge, ids) for edge in edges]
    if with_styles:
        lines += STYLES
    return "\n".join(lines) + "\n"


def _boxes(nodes: Iterable[DrawnNode], ids: dict[str, str], with_styles: bool) -> Iterator[str]:
    """Yield the Mermaid lines of nodes, and of the boxes around the nodes of each subgraph.

    A box is named after the node that calls the subgraph. ``ids`` are the Mermaid ids of the nodes
    by node id.
    """
    numbers = count(1)
    open_: list[str] = []
    for node in nodes:
        while tuple(open_) != node.within[: len(open_)]:
            yield f"{'  ' * len(open_)}end"
            open_.pop()
        for name in node.within[len(open_) :]:
            open_.append(name)
            yield f'{"  " * len(open_)}subgraph s{next(numbers)}_["{_quoted(name)}"]'
        yield f"{'  ' * (len(open_) + 1)}{ids[node.id]}{_shape(node, with_styles)}"
    for level in range(len(open_), 0, -1):
        yield f"{'  ' * level}end"


def _shape(node: DrawnNode, with_styles: bool) -> str:
    name = _quoted(node.name)
    if node.name == START:
        return f'(["{name}"])' + (":::start" if with_styles else "")
    if node.name == END:
        return f'(["{name}"])' + (":::end_" if with_styles else "")
    stops = with_styles and "__interrupt" in (node.metadata or {})
    return f'["{name}"]' + (":::stops" if stops else "")


def _arrow(edge: DrawnEdge, ids: dict[str, str]) -> str:
    line = "-.->" if edge.conditional else "-->"
    label = f'|"{_quoted(edge.data)}"|' if edge.data is not None else ""
    return f"  {ids[edge.source]} {line}{label} {ids[edge.target]}"


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", text)
