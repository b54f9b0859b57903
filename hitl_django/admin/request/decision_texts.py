"""Texts about the consequences of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.text import get_text_list
from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.engine.constants import END
from hitl_django.engine.errors import HitlError
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry, svg
from hitl_django.models import Interrupt

GOING_ON = _("Resumes the run from the breakpoint.")


def get_consequences(
    item: Interrupt, decisions: Sequence[str], *, has_form: bool
) -> dict[str, Any]:
    """Return a text about the consequence of each decision, by decision.

    ``has_form`` is true if a form contains the response.
    """
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return dict.fromkeys(decisions, GOING_ON)
    return {decision: _consequence(item, decision, has_form) for decision in decisions}


def _consequence(item: Interrupt, decision: str, has_form: bool) -> Any:
    texts = DECISION_TYPES[decision].consequences
    if item.quorum > 1:
        return (item.proposal is not None and texts.joint_proposed) or texts.joint
    if DIALECTS[item.dialect].requests_actions:
        return texts.action
    return (has_form and texts.with_form) or texts.plain


def describe_next_nodes(item: Interrupt) -> str:
    """Return the names of the nodes that may run next, or an empty string if they are unknown."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return ""
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
    return str(_("end of the run")) if name == END else f"“{escape_hidden(name)}”"
