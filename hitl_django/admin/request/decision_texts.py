"""Texts about the effects of decisions on the run."""

from __future__ import annotations

from django.utils.text import get_text_list
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.dialects import DIALECTS, humanise_name, is_middleware_node
from hitl_django.engine.constants import END
from hitl_django.engine.errors import HitlError
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.forms.answer_form import make_label
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry, svg
from hitl_django.models import Interrupt

#: Maximum number of tools shown as the next steps.
MAX_TOOLS = 5


def describe_next_nodes(item: Interrupt) -> str:
    """Return the names of the nodes that may run next, or an empty string if they are unknown.

    For a request of an agent's middleware, these are the names of the tools that the agent would
    call.
    """
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return ""
    if is_middleware_node(item.node):
        actions = DIALECTS[item.dialect].actions(item.payload)
        names = dict.fromkeys(escape_hidden(humanise_name(one.name)) for one in actions)
        return get_text_list([f"“{name}”" for name in list(names)[:MAX_TOOLS]], gettext("and"))
    try:
        graph = registry.get_graph(item.graph).graph
    except HitlError:
        return ""
    here = ":".join((*split_path(item.checkpoint_ns), item.node))
    following = dict.fromkeys(
        edge.target
        for edge in svg.get_picture(graph).edges
        if edge.source == here and edge.leads in ("always", "maybe")
    )
    return get_text_list([_node(ident) for ident in following], str(_("or")))


def _node(ident: str) -> str:
    name = ident.rpartition(":")[2]
    return str(_("end of the run")) if name == END else escape_hidden(make_label(name))
