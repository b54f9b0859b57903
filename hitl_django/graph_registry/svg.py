"""SVG pictures of graphs: which nodes a thread has visited, where it waits, and what comes next.

A picture has classes and no styles, so the page's own stylesheet colours it, light and dark;
without one it is drawn in the colour of the text around it. The state of a node is shown by a mark
as well as by a class, and in words for those who don't see it. Names and labels are escaped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from django.utils.html import format_html, format_html_join
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hitl_django.engine.drawing import Picture, PlacedEdge, PlacedNode, lay_out_graph
from hitl_django.engine.drawing.layout.text_size import LINE
from hitl_django.json_text.sanitize import escape_invisible

if TYPE_CHECKING:
    from hitl_django.engine.graph.pregel import Pregel

#: Names that the description lists of a kind; a screen reader reads it all.
NAMED = 30
HEAD = 5.0

NOTHING = format_html("{}", "")

State = str
#: In the order in which one is shown where several hold.
PAUSED, FAILED, NEXT, VISITED = "paused", "failed", "next", "visited"

#: A pause sign, a cross, an arrow and a tick: lines around the middle of the mark.
MARKS: dict[State, Sequence[Sequence[tuple[float, float]]]] = {
    PAUSED: [[(-3, -4.5), (-3, 4.5)], [(3, -4.5), (3, 4.5)]],
    FAILED: [[(-4, -4), (4, 4)], [(4, -4), (-4, 4)]],
    NEXT: [[(-3, -4.5), (4.5, 0), (-3, 4.5), (-3, -4.5)]],
    VISITED: [[(-4, 0), (-1, 3.5), (5, -4)]],
}


@lru_cache(maxsize=64)
def get_picture(graph: Pregel) -> Picture:
    """Returns the layout of a graph, which is computed once for as long as it is registered."""
    return lay_out_graph(graph, say=escape_invisible)


def draw_svg(
    picture: Picture,
    *,
    title: str = "",
    visited: Collection[str] = (),
    paused: Collection[str] = (),
    next: Collection[str] = (),  # noqa: A002  (the engine's word)
    failed: Collection[str] = (),
    ident: str = "hitl-graph",
) -> str:
    """Returns a picture as SVG; the nodes in each state are given by their ids.

    ``ident`` begins the ids in the drawing: two on one page need different ones.
    """
    nodes = {VISITED: visited, NEXT: next, FAILED: failed, PAUSED: paused}
    states = {node: state for state, ids in nodes.items() for node in ids}

    def draw(node: PlacedNode) -> str:
        return _draw_node(node, states.get(node.id, ""))

    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" class="hitl-graph" role="img"'
        ' aria-labelledby="{ident}-title {ident}-desc" viewBox="0 0 {width} {height}"'
        ' width="{width}" height="{height}" fill="none" stroke="currentColor"'
        ' font-family="sans-serif" font-size="13">'
        '<title id="{ident}-title">{title}</title><desc id="{ident}-desc">{desc}</desc>'
        "{boxes}{edges}{nodes}{labels}</svg>",
        ident=ident,
        width=_format(picture.width),
        height=_format(picture.height),
        title=escape_invisible(title) or _("The graph"),
        desc=_describe_graph(picture, nodes),
        edges=_join(_draw_edge(edge) for edge in picture.edges),
        # Edges inside a box lie on it, and nodes on edges.
        boxes=_join(draw(node) for node in picture.nodes if node.holds),
        nodes=_join(draw(node) for node in picture.nodes if not node.holds),
        labels=_join(_draw_label(edge) for edge in picture.edges if edge.label_at is not None),
    )


def _join(parts: Iterable[str]) -> str:
    return format_html_join("", "{}", ((part,) for part in parts))


# Words.


def _describe_graph(picture: Picture, nodes: dict[State, Collection[str]]) -> str:
    names = {node.id: escape_invisible(node.name) for node in picture.nodes if node.kind == "node"}
    sentences = [
        ngettext("A graph of %(count)s node.", "A graph of %(count)s nodes.", len(names))
        % {"count": len(names)},
        *(
            sentence % {"nodes": _list_names([names[one] for one in names if one in nodes[state]])}
            for state, sentence in (
                (VISITED, _("Visited: %(nodes)s.")),
                (PAUSED, _("It waits at: %(nodes)s.")),
                (FAILED, _("It failed at: %(nodes)s.")),
                (NEXT, _("What comes next: %(nodes)s.")),
            )
            if any(one in names for one in nodes[state])
        ),
    ]
    return " ".join(sentences)


def _list_names(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append(_("%(count)s more") % {"count": len(names) - NAMED})
    return get_text_list(shown, _("and"))


def _describe_node(node: PlacedNode, state: State) -> str:
    if node.kind != "node":
        return _("Start") if node.kind == "start" else _("End")
    words = {
        VISITED: _("visited"),
        PAUSED: _("waits here"),
        FAILED: _("failed here"),
        NEXT: _("comes next"),
    }.get(state)
    return f"{escape_invisible(node.name)}: {words}" if words else escape_invisible(node.name)


# Nodes.


def _draw_node(node: PlacedNode, state: State) -> str:
    classes = ["hitl-node", f"hitl-{node.kind}"]
    if node.holds:
        classes.append("hitl-box")
    if state:
        classes.append(f"hitl-{state}")
    return format_html(
        '<g class="{}"><title>{}</title>{}{}{}</g>',
        " ".join(classes),
        _describe_node(node, state),
        _draw_shape(node, state),
        _draw_name(node),
        _draw_mark(node, state),
    )


def _draw_shape(node: PlacedNode, state: State) -> str:
    if node.kind != "node":
        x, y, radius = node.x + node.width / 2, node.y + node.height / 2, node.width / 2
        dot = format_html(
            '<circle class="hitl-dot" cx="{}" cy="{}" r="{}" fill="currentColor"/>',
            _format(x), _format(y), _format(radius - 5),
        )  # fmt: skip
        if node.kind == "start":
            return dot
        ring = '<circle class="hitl-ring" cx="{}" cy="{}" r="{}"/>{}'
        return format_html(ring, _format(x), _format(y), _format(radius - 1), dot)
    dashed = format_html(' stroke-dasharray="{}"', "5 3") if state == NEXT else ""
    thick = format_html(' stroke-width="{}"', 2.5) if state in (PAUSED, FAILED) else ""
    return format_html(
        '<rect class="hitl-shape" x="{}" y="{}" width="{}" height="{}" rx="{}"{}{}/>',
        _format(node.x), _format(node.y), _format(node.width), _format(node.height),
        10 if node.holds else 6, dashed, thick,
    )  # fmt: skip


def _draw_name(node: PlacedNode) -> str:
    if not node.lines:
        return NOTHING
    x = node.x + node.width / 2
    # In a box the name stands on top, where the boxes inside leave room for it.
    top = node.y + 10 if node.holds else node.y + (node.height - len(node.lines) * LINE) / 2
    return format_html(
        '<text class="hitl-name" text-anchor="middle" unicode-bidi="plaintext"'
        ' fill="currentColor" stroke="none">{}</text>',
        format_html_join(
            "",
            '<tspan x="{}" y="{}">{}</tspan>',
            (
                (
                    _format(x),
                    _format(top + number * LINE + 12.5),
                    escape_invisible(line),
                )
                for number, line in enumerate(node.lines)
            ),
        ),
    )


def _draw_mark(node: PlacedNode, state: State) -> str:
    """Draws the mark of the node's state in its upper right corner, for those who see no colour."""
    if not state or node.kind != "node":
        return NOTHING
    x, y = node.x + node.width - 14, node.y + 12
    path = "".join(_write_line([(x + dx, y + dy) for dx, dy in stroke]) for stroke in MARKS[state])
    return format_html('<path class="hitl-mark" d="{}" stroke-width="2"/>', path)


# Edges.


def _draw_edge(edge: PlacedEdge) -> str:
    dashes = {"maybe": "6 4", "guessed": "2 4", "on_error": "8 3 2 3"}.get(edge.leads)
    dashed = format_html(' stroke-dasharray="{}"', dashes) if dashes else ""
    classes = f"hitl-edge hitl-leads-{edge.leads.replace('_', '-')}"
    return format_html(
        '<g class="{}">{}<path d="{}"{}/><path class="hitl-head" d="{}" fill="currentColor"'
        ' stroke="none"/></g>',
        classes,
        format_html("<title>{}</title>", escape_invisible(edge.label)) if edge.label else "",
        _write_curve(edge.points),
        dashed,
        _write_arrowhead(edge.points),
    )


def _draw_label(edge: PlacedEdge) -> str:
    assert edge.label_at is not None
    x, y = edge.label_at
    return format_html(
        '<text class="hitl-label" x="{}" y="{}" text-anchor="middle" unicode-bidi="plaintext"'
        ' font-size="12" fill="currentColor" stroke="none">{}</text>',
        _format(x),
        _format(y + 4),
        escape_invisible(edge.shown),
    )


def _write_curve(points: Sequence[tuple[float, float]]) -> str:
    """Returns a line through the points that bends softly between layers."""
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


def _write_arrowhead(points: Sequence[tuple[float, float]]) -> str:
    """Returns the arrow's head, which points the way the line ends: level, down or up."""
    (from_x, from_y), (x, y) = points[-2], points[-1]
    if from_y == y:
        back = HEAD * 1.6 if from_x > x else -HEAD * 1.6
        return _write_line([(x, y), (x + back, y - HEAD), (x + back, y + HEAD)]) + "Z"
    back = HEAD * 1.6 if from_y > y else -HEAD * 1.6
    return _write_line([(x, y), (x - HEAD, y + back), (x + HEAD, y + back)]) + "Z"


def _write_line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_format(x)} {_format(y)}" for x, y in points)


def _format(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
