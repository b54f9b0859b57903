"""What each decision leads to, said before it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.answers import APPROVE, EDIT, REJECT, RESPOND
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
GOING_ON = _("The run goes on from where it was told to stop.")


def leads_of(item: Interrupt, pressed: Sequence[str], *, typed: bool) -> dict[str, Any]:
    """Says of each decision what the run does with it; ``typed`` where a form holds the answer."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return dict.fromkeys(pressed, GOING_ON)
    words = {**PLAIN, **TYPED} if typed else PLAIN
    return {decision: words[decision] for decision in pressed}
