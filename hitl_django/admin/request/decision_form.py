"""The fields that go along with every decision, and the buttons that send one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Interrupt

LARGE_TEXT_CLASS = "vLargeTextField"
#: What the names of fields begin with that offer what a graph's policy says is usual.
USUAL = "usual_"


class ReasonForm(forms.Form):
    """Why it is decided so: words that are usual, of one's own or both."""

    usual_reason = forms.ChoiceField(label=_("Reason"), required=False)
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Saved with your decision. Recommended when you reject."),
        required=False,
        max_length=REASON_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2, "class": LARGE_TEXT_CLASS}),
    )

    def __init__(
        self, *args: Any, reasons: Sequence[Any], needs_reason: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.needs_reason = needs_reason
        own: Any = self.fields["reason"]
        own.is_needed = needs_reason and not reasons  # the page marks its label
        self.offer_usual("reason", reasons)

    def offer_usual(self, name: str, words: Sequence[Any]) -> None:
        """Offer words to choose from, instead of or in front of what is written."""
        if not words:
            del self.fields[USUAL + name]
            return
        choice: Any = self.fields[USUAL + name]
        choice.choices = [("", _("(none of these)")), *((str(one), str(one)) for one in words)]
        self.fields[name].label = _("Other")

    def clean(self) -> dict[str, Any]:
        """Put what was chosen in front of what was written."""
        values: dict[str, Any] = super().clean() or {}
        for name in ("reason", "reply"):
            if chosen := values.get(USUAL + name):
                own = values.get(name, "")
                values[name] = f"{chosen}\n{own}" if own.strip() else chosen
        if len(values.get("reason", "")) > REASON_LENGTH:
            self.add_error("reason", _("Too long together with the selected text."))
        if self.needs_reason and not values.get("reason") and not self.errors:
            self.add_error("reason", _("Enter a reason. It is saved with every rejection."))
        return values


class DecisionForm(ReasonForm):
    """What goes along with every decision, whatever it is.

    ``digest`` and ``version`` name the question as it was shown, ``key`` makes a second click on
    the same page the same decision and not another one.
    """

    digest = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    usual_reply = forms.ChoiceField(label=_("Your response"), required=False)
    reply = forms.CharField(
        label=_("Your response"),
        help_text=_("Sent to the graph instead of an approval or rejection."),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": LARGE_TEXT_CLASS}),
    )
    reply_is_json = forms.BooleanField(label=_("Parse as JSON"), required=False)

    def __init__(self, *args: Any, policy: ReviewPolicy, **kwargs: Any) -> None:
        super().__init__(*args, reasons=policy.reasons, **kwargs)
        self.offer_usual("reply", policy.replies)


@dataclass(frozen=True)
class Button:
    """A decision that can be sent, and what the run does after it."""

    value: str
    label: Any
    style: str = ""
    consequence: Any = ""


def get_button_label(item: Interrupt, decision: str) -> Any:
    """Return what the button for a decision says."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return _("Continue")
    labels = DIALECTS[item.dialect].button_labels
    return labels.get(decision, DECISION_TYPES[decision].button)
