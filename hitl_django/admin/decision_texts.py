"""What each decision leads to, said before it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.text import get_text_list
from django.utils.translation import gettext_lazy as _

from hitl_django.answers import APPROVE, EDIT, RAW, REJECT, RESPOND
from hitl_django.engine.constants import END
from hitl_django.engine.errors import HitlError
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.forms.json_input import visible
from hitl_django.graph_registry import registry, svg
from hitl_django.models import Interrupt

#: Of a question without a schema, or with one that is yes or no.
PLAIN: dict[str, Any] = {
    APPROVE: _("The run goes on with a yes to what is asked."),
    EDIT: _("The run goes on with your version instead of what is asked."),
    REJECT: _("The run goes on with a no."),
    RESPOND: _("The run goes on with what you write, instead of a yes or no."),
}
#: Of a question whose schema asks for an approval among other things.
TYPED: dict[str, Any] = {
    APPROVE: _("The run goes on with a yes and with the answer as it stands above."),
    REJECT: _("The run goes on with a no and with the answer as it stands above."),
    RESPOND: _("The run goes on with the answer as it stands above."),
}
#: Of an action that is asked for before it is carried out.
ACTION: dict[str, Any] = {
    APPROVE: _("It is carried out as it stands."),
    EDIT: _("It is carried out with your changes."),
    REJECT: _("It isn't carried out; the run goes on without."),
    RESPOND: _("It isn't carried out; whoever asked is told what you write."),
}
#: Of a question that several have to agree on; what is below comes when enough have.
JOINTLY: dict[str, Any] = {
    APPROVE: _("You agree with what is asked. The run goes on when enough people do."),
    EDIT: _("Others are asked to approve your version. Approvals so far don't count for it."),
    REJECT: _("The run goes on with a no, whatever others have said."),
    RESPOND: _("Others are asked to approve your answer. Approvals so far don't count for it."),
}
PROPOSED = _("You agree with the changed version. The run goes on when enough people do.")
GOING_ON = _("The run goes on from where it was told to stop.")


def leads_of(item: Interrupt, pressed: Sequence[str], *, typed: bool) -> dict[str, Any]:
    """Says of each decision what the run does with it; ``typed`` where a form holds the answer."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return dict.fromkeys(pressed, GOING_ON)
    if item.quorum > 1:
        agreed = PROPOSED if item.proposal is not None else JOINTLY[APPROVE]
        return {decision: {**JOINTLY, APPROVE: agreed}[decision] for decision in pressed}
    if item.dialect != RAW:
        return {decision: ACTION[decision] for decision in pressed}
    words = {**PLAIN, **TYPED} if typed else PLAIN
    return {decision: words[decision] for decision in pressed}


def then_of(item: Interrupt) -> str:
    """Says which nodes may come after the one that asks; nothing where the graph doesn't tell."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return ""
    try:
        graph = registry.get(item.graph).graph
    except HitlError:
        return ""
    here = ":".join((*split_path(item.checkpoint_ns), item.node))
    following = dict.fromkeys(
        edge.target
        for edge in svg.picture_of(graph).edges
        if edge.source == here and edge.leads in ("always", "maybe")
    )
    return get_text_list([_node(ident) for ident in following], str(_("or")))


def _node(ident: str) -> str:
    name = ident.rpartition(":")[2]
    return str(_("the end of the run")) if name == END else f"“{visible(name)}”"
