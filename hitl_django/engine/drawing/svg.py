"""SVG images of graphs with the states of nodes.

The SVG has classes but no styles, so that a page's stylesheet can set the colors. Without a
stylesheet, the SVG uses the color of the surrounding text. All names and labels are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from .layout.layout import Point
from .layout.text_size import LINE, Say
from .picture import Picture, PlacedEdge, PlacedNode

HEAD = 5.0

#: The states of a node.
PAUSED, FAILED, NEXT, VISITED = "paused", "failed", "next", "visited"

#: Lines relative to the center of the mark: a pause sign, a cross, an arrow and a tick.
MARKS: dict[str, Sequence[Sequence[Point]]] = {
    PAUSED: [[(-3, -4.5), (-3, 4.5)], [(3, -4.5), (3, 4.5)]],
    FAILED: [[(-4, -4), (4, 4)], [(4, -4), (-4, 4)]],
    NEXT: [[(-3, -4.5), (4.5, 0), (-3, 4.5), (-3, -4.5)]],
    VISITED: [[(-4, 0), (-1, 3.5), (5, -4)]],
}
_NO_STATES: Mapping[str, str] = {}


def write_svg(
    picture: Picture,
    *,
    title: str,
    description: str,
    describe_node: Callable[[PlacedNode, str], str],
    states: Mapping[str, str] = _NO_STATES,
    say: Say = str,
    ident: str = "graph",
) -> str:
    """Return a picture as SVG.

    ``states`` are the states of nodes by node id. ``describe_node`` returns a description of a node
    and its state, for screen readers. ``say`` converts a name to the displayed text. ``ident`` is
    the prefix of ids in the SVG, and must be unique on a page.
    """

    def draw(node: PlacedNode) -> str:
        state = states.get(node.id, "")
        return _draw_node(node, state, describe_node(node, state), say)

    width, height, name = _format(picture.width), _format(picture.height), escape(ident)
    # Edges are drawn over their enclosing box, and nodes over edges.
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="hitl-graph" role="img"',
        f' aria-labelledby="{name}-title {name}-desc" viewBox="0 0 {width} {height}"',
        f' width="{width}" height="{height}" fill="none" stroke="currentColor"',
        ' font-family="sans-serif" font-size="13">',
        f'<title id="{name}-title">{escape(title)}</title>',
        f'<desc id="{name}-desc">{escape(description)}</desc>',
        *(draw(node) for node in picture.nodes if node.holds),
        *(_draw_edge(edge, say) for edge in picture.edges),
        *(draw(node) for node in picture.nodes if not node.holds),
        *(_draw_label(edge.label_at, say(edge.shown)) for edge in picture.edges if edge.label_at),
        "</svg>",
    ]
    return "".join(parts)


def _draw_node(node: PlacedNode, state: str, description: str, say: Say) -> str:
    classes = ["hitl-node", f"hitl-{node.kind}"]
    if node.holds:
        classes.append("hitl-box")
    if state:
        classes.append(f"hitl-{state}")
    return (
        f'<g class="{" ".join(classes)}"><title>{escape(description)}</title>'
        f"{_draw_shape(node, state)}{_draw_name(node, say)}{_draw_mark(node, state)}</g>"
    )


def _draw_shape(node: PlacedNode, state: str) -> str:
    if node.kind != "node":
        x, y = _format(node.x + node.width / 2), _format(node.y + node.height / 2)
        radius = node.width / 2
        dot = (
            f'<circle class="hitl-dot" cx="{x}" cy="{y}" r="{_format(radius - 5)}"'
            ' fill="currentColor"/>'
        )
        if node.kind == "start":
            return dot
        return f'<circle class="hitl-ring" cx="{x}" cy="{y}" r="{_format(radius - 1)}"/>{dot}'
    dashed = ' stroke-dasharray="5 3"' if state == NEXT else ""
    thick = ' stroke-width="2.5"' if state in (PAUSED, FAILED) else ""
    return (
        f'<rect class="hitl-shape" x="{_format(node.x)}" y="{_format(node.y)}"'
        f' width="{_format(node.width)}" height="{_format(node.height)}"'
        f' rx="{10 if node.holds else 6}"{dashed}{thick}/>'
    )


def _draw_name(node: PlacedNode, say: Say) -> str:
    if not node.lines:
        return ""
    x = _format(node.x + node.width / 2)
    # In a box, the name is at the top, above the nested boxes.
    top = node.y + 10 if node.holds else node.y + (node.height - len(node.lines) * LINE) / 2
    lines = (
        f'<tspan x="{x}" y="{_format(top + number * LINE + 12.5)}">{escape(say(line))}</tspan>'
        for number, line in enumerate(node.lines)
    )
    return (
        '<text class="hitl-name" text-anchor="middle" unicode-bidi="plaintext"'
        f' fill="currentColor" stroke="none">{"".join(lines)}</text>'
    )


def _draw_mark(node: PlacedNode, state: str) -> str:
    """Draw a shape that identifies the node's state without color."""
    if not state or node.kind != "node":
        return ""
    x, y = node.x + node.width - 14, node.y + 12
    path = "".join(_write_line([(x + dx, y + dy) for dx, dy in stroke]) for stroke in MARKS[state])
    return f'<path class="hitl-mark" d="{path}" stroke-width="2"/>'


def _draw_edge(edge: PlacedEdge, say: Say) -> str:
    dashes = {"maybe": "6 4", "guessed": "2 4", "on_error": "8 3 2 3"}.get(edge.leads)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    title = f"<title>{escape(say(edge.label))}</title>" if edge.label else ""
    return (
        f'<g class="hitl-edge hitl-leads-{edge.leads.replace("_", "-")}">{title}'
        f'<path d="{_write_curve(edge.points)}"{dashed}/><path class="hitl-head"'
        f' d="{_write_arrowhead(edge.points)}" fill="currentColor" stroke="none"/></g>'
    )


def _draw_label(place: Point, text: str) -> str:
    x, y = place
    return (
        f'<text class="hitl-label" x="{_format(x)}" y="{_format(y + 4)}" text-anchor="middle"'
        ' unicode-bidi="plaintext" font-size="12" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )


def _write_curve(points: Sequence[Point]) -> str:
    """Return the data of an SVG path through the points, with curves between layers."""
    (x, y), *rest = points
    parts = [f"M{_format(x)} {_format(y)}"]
    for to_x, to_y in rest:
        if to_x == x or to_y == y:
            parts.append(f"L{_format(to_x)} {_format(to_y)}")
        else:
            half = _format((y + to_y) / 2)
            parts.append(
                f"C{_format(x)} {half} {_format(to_x)} {half} {_format(to_x)} {_format(to_y)}"
            )
        x, y = to_x, to_y
    return "".join(parts)


def _write_arrowhead(points: Sequence[Point]) -> str:
    (from_x, from_y), (x, y) = points[-2], points[-1]
    if from_y == y:
        back = HEAD * 1.6 if from_x > x else -HEAD * 1.6
        return _write_line([(x, y), (x + back, y - HEAD), (x + back, y + HEAD)]) + "Z"
    back = HEAD * 1.6 if from_y > y else -HEAD * 1.6
    return _write_line([(x, y), (x - HEAD, y + back), (x + HEAD, y + back)]) + "Z"


def _write_line(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_format(x)} {_format(y)}" for x, y in points)


def _format(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
