"""What goes along with every decision, and the buttons that send one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from hitl_django.answers import APPROVE, EDIT, REJECT, RESPOND
from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.models import Interrupt

LARGE = "vLargeTextField"


class Slip(forms.Form):
    """What goes along with every decision, whatever it is.

    ``digest`` and ``version`` name the question as it was shown, ``key`` makes a second click on
    the same page the same decision and not another one.
    """

    digest = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Kept with your decision. Say why, above all when you reject."),
        required=False,
        max_length=REASON_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2, "class": LARGE}),
    )
    reply = forms.CharField(
        label=_("Your answer"),
        help_text=_("Sent to the graph instead of a yes or no."),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": LARGE}),
    )
    reply_is_json = forms.BooleanField(label=_("This is JSON, not text"), required=False)


@dataclass(frozen=True)
class Button:
    """A decision that can be sent, and what it leads to."""

    value: str
    label: Any
    style: str = ""
    leads: Any = ""


LABELS = {
    APPROVE: _("Approve"),
    EDIT: _("Send edited version"),
    REJECT: _("Reject"),
    RESPOND: _("Send answer"),
}
#: In the words of those who ask in a dialect.
IN_DIALECT: dict[tuple[str, str], Any] = {
    ("human_interrupt", APPROVE): _("Accept"),
    ("human_interrupt", REJECT): _("Ignore"),
    ("tool_call", RESPOND): _("Send feedback"),
}


def label_of(item: Interrupt, decision: str) -> Any:
    """Returns what the button for a decision says."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return _("Go on")
    return IN_DIALECT.get((item.dialect, decision), LABELS[decision])
