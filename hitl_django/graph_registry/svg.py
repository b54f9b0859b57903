"""The picture of a graph as SVG: which nodes were visited, where it waits, and what comes next.

It has classes and no styles, so the page's own stylesheet colours it, light and dark; without one
it is drawn in the colour of the text around it. What became of a node is told by a mark as well as
by a class, and in words for those who don't see it. Names and labels are escaped like any text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from django.utils.html import format_html, format_html_join
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hitl_django.engine.drawing import Picture, PlacedEdge, PlacedNode
from hitl_django.engine.drawing import lay_out_graph as lay_out
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
def picture_of(graph: Pregel) -> Picture:
    """Lays a graph out, once for as long as it is registered."""
    return lay_out(graph, say=escape_invisible)


def svg(
    picture: Picture,
    *,
    title: str = "",
    visited: Collection[str] = (),
    paused: Collection[str] = (),
    next: Collection[str] = (),  # noqa: A002  (the engine's word)
    failed: Collection[str] = (),
    ident: str = "hitl-graph",
) -> str:
    """Draws a picture; the nodes that something is to be said of are given by their ids.

    ``ident`` begins the ids in the drawing: two on one page need different ones.
    """
    told = {VISITED: visited, NEXT: next, FAILED: failed, PAUSED: paused}
    state = {name: said for said, names in told.items() for name in names}

    def drawn(node: PlacedNode) -> str:
        return _node(node, state.get(node.id, ""))

    return format_html(
        '<svg xmlns="http://www.w3.org/2000/svg" class="hitl-graph" role="img"'
        ' aria-labelledby="{ident}-title {ident}-desc" viewBox="0 0 {width} {height}"'
        ' width="{width}" height="{height}" fill="none" stroke="currentColor"'
        ' font-family="sans-serif" font-size="13">'
        '<title id="{ident}-title">{title}</title><desc id="{ident}-desc">{desc}</desc>'
        "{boxes}{edges}{nodes}{labels}</svg>",
        ident=ident,
        width=_number(picture.width),
        height=_number(picture.height),
        title=escape_invisible(title) or _("The graph"),
        desc=_description(picture, told),
        edges=_joined(_edge(edge) for edge in picture.edges),
        # Edges inside a box lie on it, and nodes on edges.
        boxes=_joined(drawn(node) for node in picture.nodes if node.holds),
        nodes=_joined(drawn(node) for node in picture.nodes if not node.holds),
        labels=_joined(_label(edge) for edge in picture.edges if edge.label_at is not None),
    )


def _joined(parts: Iterable[str]) -> str:
    return format_html_join("", "{}", ((part,) for part in parts))


# Words.


def _description(picture: Picture, told: dict[State, Collection[str]]) -> str:
    names = {node.id: escape_invisible(node.name) for node in picture.nodes if node.kind == "node"}
    sentences = [
        ngettext("A graph of %(count)s node.", "A graph of %(count)s nodes.", len(names))
        % {"count": len(names)},
        *(
            sentence % {"nodes": _listed([names[one] for one in names if one in told[state]])}
            for state, sentence in (
                (VISITED, _("Visited: %(nodes)s.")),
                (PAUSED, _("It waits at: %(nodes)s.")),
                (FAILED, _("It failed at: %(nodes)s.")),
                (NEXT, _("What comes next: %(nodes)s.")),
            )
            if any(one in names for one in told[state])
        ),
    ]
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append(_("%(count)s more") % {"count": len(names) - NAMED})
    return get_text_list(shown, _("and"))


def _title(node: PlacedNode, state: State) -> str:
    if node.kind != "node":
        return _("Start") if node.kind == "start" else _("End")
    said = {
        VISITED: _("visited"),
        PAUSED: _("waits here"),
        FAILED: _("failed here"),
        NEXT: _("comes next"),
    }.get(state)
    return f"{escape_invisible(node.name)}: {said}" if said else escape_invisible(node.name)


# Nodes.


def _node(node: PlacedNode, state: State) -> str:
    classes = ["hitl-node", f"hitl-{node.kind}"]
    if node.holds:
        classes.append("hitl-box")
    if state:
        classes.append(f"hitl-{state}")
    return format_html(
        '<g class="{}"><title>{}</title>{}{}{}</g>',
        " ".join(classes),
        _title(node, state),
        _shape(node, state),
        _name(node),
        _mark(node, state),
    )


def _shape(node: PlacedNode, state: State) -> str:
    if node.kind != "node":
        x, y, radius = node.x + node.width / 2, node.y + node.height / 2, node.width / 2
        dot = format_html(
            '<circle class="hitl-dot" cx="{}" cy="{}" r="{}" fill="currentColor"/>',
            _number(x), _number(y), _number(radius - 5),
        )  # fmt: skip
        if node.kind == "start":
            return dot
        ring = '<circle class="hitl-ring" cx="{}" cy="{}" r="{}"/>{}'
        return format_html(ring, _number(x), _number(y), _number(radius - 1), dot)
    dashed = format_html(' stroke-dasharray="{}"', "5 3") if state == NEXT else ""
    thick = format_html(' stroke-width="{}"', 2.5) if state in (PAUSED, FAILED) else ""
    return format_html(
        '<rect class="hitl-shape" x="{}" y="{}" width="{}" height="{}" rx="{}"{}{}/>',
        _number(node.x), _number(node.y), _number(node.width), _number(node.height),
        10 if node.holds else 6, dashed, thick,
    )  # fmt: skip


def _name(node: PlacedNode) -> str:
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
                (_number(x), _number(top + number * LINE + 12.5), escape_invisible(line))
                for number, line in enumerate(node.lines)
            ),
        ),
    )


def _mark(node: PlacedNode, state: State) -> str:
    """Draws what tells the states apart without colour, in the node's upper right corner."""
    if not state or node.kind != "node":
        return NOTHING
    x, y = node.x + node.width - 14, node.y + 12
    path = "".join(_polyline([(x + dx, y + dy) for dx, dy in stroke]) for stroke in MARKS[state])
    return format_html('<path class="hitl-mark" d="{}" stroke-width="2"/>', path)


# Edges.


def _edge(edge: PlacedEdge) -> str:
    dashes = {"maybe": "6 4", "guessed": "2 4", "on_error": "8 3 2 3"}.get(edge.leads)
    dashed = format_html(' stroke-dasharray="{}"', dashes) if dashes else ""
    classes = f"hitl-edge hitl-leads-{edge.leads.replace('_', '-')}"
    return format_html(
        '<g class="{}">{}<path d="{}"{}/><path class="hitl-head" d="{}" fill="currentColor"'
        ' stroke="none"/></g>',
        classes,
        format_html("<title>{}</title>", escape_invisible(edge.label)) if edge.label else "",
        _way(edge.points),
        dashed,
        _head(edge.points),
    )


def _label(edge: PlacedEdge) -> str:
    assert edge.label_at is not None
    x, y = edge.label_at
    return format_html(
        '<text class="hitl-label" x="{}" y="{}" text-anchor="middle" unicode-bidi="plaintext"'
        ' font-size="12" fill="currentColor" stroke="none">{}</text>',
        _number(x),
        _number(y + 4),
        escape_invisible(edge.shown),
    )


def _way(points: Sequence[tuple[float, float]]) -> str:
    """Returns a line through the points that bends softly between layers."""
    (x, y), *rest = points
    parts = [f"M{_number(x)} {_number(y)}"]
    for to_x, to_y in rest:
        if to_x == x or to_y == y:
            parts.append(f"L{_number(to_x)} {_number(to_y)}")
        else:
            half = _number((y + to_y) / 2)
            parts.append(
                f"C{_number(x)} {half} {_number(to_x)} {half} {_number(to_x)} {_number(to_y)}"
            )
        x, y = to_x, to_y
    return "".join(parts)


def _head(points: Sequence[tuple[float, float]]) -> str:
    """Returns the arrow's head, which points the way the line ends: level, down or up."""
    (from_x, from_y), (x, y) = points[-2], points[-1]
    if from_y == y:
        back = HEAD * 1.6 if from_x > x else -HEAD * 1.6
        return _polyline([(x, y), (x + back, y - HEAD), (x + back, y + HEAD)]) + "Z"
    back = HEAD * 1.6 if from_y > y else -HEAD * 1.6
    return _polyline([(x, y), (x - HEAD, y + back), (x + HEAD, y + back)]) + "Z"


def _polyline(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
