"""SVG pictures of graphs.

A picture marks the visited, paused, next and failed nodes of a thread. The state of a node is shown
by a mark and a CSS class. For screen readers, a text describes the state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hitl_django.engine.drawing import Picture, PlacedNode, lay_out_graph
from hitl_django.engine.drawing.svg import FAILED, NEXT, PAUSED, VISITED, write_svg
from hitl_django.json_text.sanitize import escape_invisible

if TYPE_CHECKING:
    from hitl_django.engine.graph.pregel import Pregel

#: The maximum number of names per state in the description, which screen readers read completely.
NAMED = 30


@lru_cache(maxsize=64)
def get_picture(graph: Pregel) -> Picture:
    """Return the layout of a graph. The result is cached for each registered graph."""
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
) -> SafeString:
    """Return a picture as SVG, with marks for the states of nodes.

    ``visited``, ``paused``, ``next`` and ``failed`` are ids of nodes. ``ident`` is the prefix of
    the ids in the SVG, and must be unique on a page.
    """
    # If a node has several states, the last state in this dict is shown.
    nodes = {VISITED: visited, NEXT: next, FAILED: failed, PAUSED: paused}
    drawn = write_svg(
        picture,
        title=escape_invisible(title) or _("Graph"),
        description=_describe_graph(picture, nodes),
        describe_node=_describe_node,
        states={node: state for state, ids in nodes.items() for node in ids},
        say=escape_invisible,
        ident=ident,
    )
    return SafeString(drawn)  # All texts in the drawing have been escaped.


def _describe_graph(picture: Picture, nodes: dict[str, Collection[str]]) -> str:
    names = {node.id: escape_invisible(node.name) for node in picture.nodes if node.kind == "node"}
    sentences = [
        ngettext("Graph with %(count)s node.", "Graph with %(count)s nodes.", len(names))
        % {"count": len(names)},
        *(
            sentence % {"nodes": _list_names([names[one] for one in names if one in nodes[state]])}
            for state, sentence in (
                (VISITED, _("Visited: %(nodes)s.")),
                (PAUSED, _("Waiting for review at: %(nodes)s.")),
                (FAILED, _("Failed at: %(nodes)s.")),
                (NEXT, _("Next: %(nodes)s.")),
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


def _describe_node(node: PlacedNode, state: str) -> str:
    if node.kind != "node":
        return _("Start") if node.kind == "start" else _("End")
    label = {
        VISITED: _("visited"),
        PAUSED: _("waiting for review"),
        FAILED: _("failed here"),
        NEXT: _("next"),
    }.get(state)
    return f"{escape_invisible(node.name)}: {label}" if label else escape_invisible(node.name)
