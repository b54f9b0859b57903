"""Fields that all decisions have, and the buttons that send a decision."""

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
#: Prefix of the fields with suggested texts from a graph's policy.
SUGGESTED_PREFIX = "suggested_"
GOING_ON = _("Resumes the run from the breakpoint.")


class ReasonForm(forms.Form):
    """Form for the reason of a decision, with suggested texts, free text, or both."""

    suggested_reason = forms.ChoiceField(
        label=_("Reason"), required=False, widget=forms.RadioSelect
    )
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Saved with your decision."),
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
        own.is_needed = needs_reason and not reasons  # Marks the label as required.
        self.add_suggestions("reason", reasons)

    def add_suggestions(self, name: str, words: Sequence[Any]) -> None:
        """Set the suggested texts for the text field ``name``, shown in a separate choice field.

        If ``words`` is empty, remove the choice field.
        """
        if not words:
            del self.fields[SUGGESTED_PREFIX + name]
            return
        choice: Any = self.fields[SUGGESTED_PREFIX + name]
        choice.choices = [*((str(one), str(one)) for one in words), ("", _("Other"))]
        self.fields[name].label = _("Details")

    def clean(self) -> dict[str, Any]:
        """Combine the selected suggestions and the typed text."""
        values: dict[str, Any] = super().clean() or {}
        for name in ("reason", "reply"):
            if chosen := values.get(SUGGESTED_PREFIX + name):
                own = values.get(name, "")
                values[name] = f"{chosen}\n{own}" if own.strip() else chosen
        if len(values.get("reason", "")) > REASON_LENGTH:
            self.add_error(
                "reason", _("The details and the selected reason are too long together.")
            )
        if self.needs_reason and not values.get("reason") and not self.errors:
            self.add_error(
                "reason", _("Enter a reason. It is saved with each request that you reject.")
            )
        return values


class DecisionForm(ReasonForm):
    """The form fields that every decision has.

    ``digest`` and ``version`` identify the version of the interrupt on the page. ``key`` is an
    idempotency key, so a second click on the same page doesn't store a second decision.
    """

    digest = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    suggested_reply = forms.ChoiceField(
        label=_("Your response"), required=False, widget=forms.RadioSelect
    )
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
        self.add_suggestions("reply", policy.replies)


@dataclass(frozen=True)
class Button:
    """A button that sends a decision, with a text about the decision's effect on the run."""

    value: str
    label: Any
    consequence: Any = ""


def get_button_label(item: Interrupt, decision: str) -> Any:
    """Return the label of the button for a decision."""
    if item.kind == Interrupt.Kind.BREAKPOINT:
        return _("Continue")
    labels = DIALECTS[item.dialect].button_labels
    return labels.get(decision, DECISION_TYPES[decision].button)


def get_consequences(
    item: Interrupt, decisions: Sequence[str], *, has_form: bool
) -> dict[str, Any]:
    """Return a text about the effect of each decision on the run, by decision type.

    ``has_form`` is true if the page has a form in which the response is entered.
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
