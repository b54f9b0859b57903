"""Serializers of the body of ``POST interrupts/``, which creates an interrupt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.engine.types import Expiry
from hitl_django.review_options import HIGHEST_QUORUM, PRIORITIES

from .fields import (
    MAX_SECONDS,
    JSONObjectField,
    JSONValueField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictFloatField,
    StrictIntegerField,
    StrictSerializer,
    TimeOrSecondsField,
)
from .runs import SubjectBody


class ExpiryBody(StrictSerializer):
    """The time limit of an interrupt, and the effect of reaching the limit."""

    seconds = StrictFloatField(
        least=1, most=MAX_SECONDS, help_text="Seconds until the interrupt expires."
    )
    then = StrictChoiceField(
        choices=["cancel", "answer", "keep", "escalate", "park"],
        help_text="cancel: withdraw the interrupt; answer: use `answer` as the response; keep: "
        "mark it as overdue; escalate: also assign it to `group`; park: an operator decides how "
        "to continue.",
    )
    answer = JSONValueField(required=False, help_text="The response, for `answer`.")
    group = StrictCharField(max_length=150, required=False, help_text="Group, for `escalate`.")

    def validate(self, attrs: dict[str, Any]) -> Any:
        """Return the Expiry that the fields describe."""
        try:
            return Expiry(timedelta(seconds=attrs.pop("seconds")), **attrs)
        except ValueError as error:
            raise serializers.ValidationError({"then": [str(error)]}) from None


class AskBody(StrictSerializer):
    """The payload, the response schema and the review options of a new interrupt."""

    payload = JSONValueField(help_text="The content shown to the reviewer.")
    response_schema = JSONObjectField(required=False, help_text="JSON Schema of the response.")
    title = StrictCharField(
        max_length=300, required=False, help_text="Heading. Default: derived from the payload."
    )
    why = StrictCharField(max_length=10_000, required=False, help_text="Reason for the review.")
    decisions = serializers.ListField(
        child=StrictChoiceField(choices=list(DECISION_TYPES)),
        min_length=1,
        max_length=len(DECISION_TYPES),
        required=False,
        help_text="The decision types to offer. Default: all that fit the payload.",
    )
    editable = serializers.ListField(
        child=StrictCharField(max_length=1000),
        max_length=1000,
        required=False,
        help_text="Keys and JSON pointers that an edit may change. Default: all.",
    )
    group = StrictCharField(max_length=150, required=False, help_text="Name of the group.")
    assignee = StrictCharField(max_length=254, required=False, help_text="Username.")
    due = TimeOrSecondsField(
        required=False, help_text="When it is overdue: a time, or seconds from now."
    )
    expires = ExpiryBody(required=False, help_text="The time limit.")
    priority = StrictIntegerField(
        least=PRIORITIES.start,
        most=PRIORITIES.stop - 1,
        required=False,
        help_text="Interrupts with a higher priority come first.",
    )
    quorum = StrictIntegerField(
        least=1, most=HIGHEST_QUORUM, required=False, help_text="Number of approvals required."
    )
    no_self_approval = StrictBooleanField(
        required=False, help_text="Whether you can't approve the interrupt yourself."
    )
    claim_required = StrictBooleanField(
        required=False, help_text="Whether only a user with a claim may decide."
    )
    dialect = StrictChoiceField(
        choices=list(DIALECTS),
        required=False,
        help_text="Payload format. Default: recognized from the payload.",
    )
    key = StrictCharField(
        max_length=255,
        required=False,
        help_text="Idempotency key. The same key and request return the existing interrupt; the "
        "same key with another request is refused (422).",
    )
    subject = SubjectBody(
        required=False, help_text="Related object. You need permission to view it (422)."
    )
    metadata = JSONObjectField(required=False, help_text="Metadata stored with the thread.")
