"""Serializers of interrupts and decisions, and of request bodies with decisions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.answers import read_options
from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.models import Decision

from .fields import (
    HyperlinkField,
    JSONObjectField,
    JSONValueField,
    MethodField,
    OffsetDateTimeField,
    ProblemField,
    ReviewURLField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictSerializer,
    StrictUUIDField,
)
from .interrupt_fields import InterruptColumnsSerializer

#: Maximum number of decisions per request.
MAX_BULK_DECISIONS = 100


class InterruptSerializer(InterruptColumnsSerializer):
    """An interrupt in the format of lists, without its payload.

    The base class adds the fields for columns that are part of lists.
    """

    shown_in = frozenset({"list"})

    id = StrictUUIDField()
    url = HyperlinkField("interrupt", source="id")
    review_url = ReviewURLField()
    run = StrictUUIDField(source="run_id")
    thread_id = serializers.CharField(source="thread.thread_id")
    dialect = StrictChoiceField(choices=list(DIALECTS), help_text="Payload format (dialect).")
    allowed_decisions = serializers.ListField(child=StrictChoiceField(choices=list(DECISION_TYPES)))
    assignee = serializers.CharField(source="assignee_label", help_text="Assignee's username.")
    group = serializers.CharField(source="group_label")
    claimed_by = MethodField(
        serializers.CharField(
            help_text="Username of the reviewer who has claimed it; empty if unclaimed."
        )
    )
    claimed_until = MethodField(OffsetDateTimeField(allow_null=True))
    snoozed_until = MethodField(OffsetDateTimeField(allow_null=True))
    overdue = serializers.BooleanField(source="is_overdue")

    def get_claimed_by(self, interrupt: Any) -> str:
        return str(interrupt.claimed_by_label) if interrupt.is_claimed else ""

    def get_claimed_until(self, interrupt: Any) -> str | None:
        # An expired claim is not cleared, but counts as no claim.
        until = interrupt.claimed_until
        return OffsetDateTimeField().to_representation(until) if interrupt.is_claimed else None

    def get_snoozed_until(self, interrupt: Any) -> str | None:
        until = interrupt.snoozed_until
        return OffsetDateTimeField().to_representation(until) if interrupt.is_snoozed else None


class DecisionBody(StrictSerializer):
    """Request body of a decision: either its type and value, or a resume value."""

    either = (("type", "value"), ("resume",))

    type = StrictChoiceField(
        choices=list(DECISION_TYPES),
        required=False,
        help_text="One of the interrupt's allowed_decisions.",
    )
    value = JSONValueField(
        required=False, help_text="The response, for decisions that take one; see response_schema."
    )
    resume = JSONValueField(
        required=False,
        help_text="Instead of type and value: the resume value. It must match one of the "
        "allowed_decisions.",
    )
    reason = StrictCharField(max_length=REASON_LENGTH, allow_blank=True, required=False)
    ignore_claim = StrictBooleanField(
        required=False,
        help_text="Set to false to get 409 (`claimed`) if someone else has claimed the "
        "interrupt. By default the decision is accepted and records the claim "
        "in claimed_by.",
    )


class DecisionSerializer(serializers.Serializer):
    """A decision with its author, time, source and response."""

    id = StrictUUIDField()
    interrupt = StrictUUIDField(source="interrupt_id")
    version = serializers.IntegerField(help_text="The interrupt version that was decided.")
    type = StrictChoiceField(choices=Decision.Type.values)
    value = JSONValueField(help_text="The resume value sent to the graph.")
    reason = serializers.CharField()
    refusal = serializers.CharField(help_text="Why the graph rejected the value, if it did.")
    by = serializers.CharField(source="by_label")
    via = serializers.CharField(help_text="Source: api, admin, code, command …")
    claimed_by = serializers.CharField(
        source="claimed_by_label",
        help_text="Who had claimed the interrupt at that time; empty if unclaimed.",
    )
    complete = MethodField(
        serializers.BooleanField(
            help_text="False for an approval after which more approvals are required, and for a "
            "decision that was undone."
        )
    )
    approvals = serializers.IntegerField(help_text="Number of approvals, including this one.")
    quorum = serializers.IntegerField(help_text="Number of approvals required.")
    patch = serializers.ListField(
        child=JSONObjectField(),
        allow_null=True,
        help_text="Changes made by an edit, as JSON Patch (RFC 6902); null for other decisions.",
    )
    created_at = OffsetDateTimeField()
    undone_at = OffsetDateTimeField(
        allow_null=True, help_text="When the decision was undone, if it was."
    )

    def get_complete(self, decision: Any) -> bool:
        return decision.effective is True if isinstance(decision, Decision) else decision.complete


class InterruptDetailSerializer(InterruptSerializer):
    """An interrupt with its payload, response schema and decision."""

    shown_in = frozenset({"list", "detail"})

    digest = serializers.CharField(source="payload_digest")
    payload_formats = JSONObjectField(
        allow_null=True,
        help_text="Formats of values in the payload that were Decimals, UUIDs, dates or times in "
        "Python, by JSON pointer: decimal, uuid, date, date-time, date-time-local (without a time "
        "zone) or time; null if there are no such values.",
    )
    response_schema = JSONObjectField(allow_null=True)
    editable = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Keys and JSON pointers that an edit may change; null for all.",
    )
    quorum = serializers.IntegerField(help_text="Number of approvals required.")
    approvals = serializers.IntegerField(help_text="Number of approvals of this version.")
    proposal = MethodField(
        JSONValueField(help_text="The edited version waiting for approvals, without secrets.")
    )
    decision = DecisionSerializer(
        source="closing", allow_null=True, help_text="The decision that closed the interrupt."
    )
    settled = serializers.BooleanField(
        source="is_settled",
        help_text="Whether the interrupt is closed and its decision can't be undone.",
    )
    resumes_at = OffsetDateTimeField(
        allow_null=True,
        help_text="When the run resumes after the decision; until then, the decision can be "
        "undone. Otherwise null.",
    )
    refused = DecisionSerializer(
        allow_null=True, help_text="The last decision whose response the graph rejected."
    )

    def get_proposal(self, interrupt: Any) -> Any:
        return read_options(interrupt).mask_proposal()


class ValidationSerializer(serializers.Serializer):
    """The result of validating a decision."""

    valid = serializers.BooleanField()
    resume = JSONValueField(help_text="The value the graph would receive.")


class BulkItem(DecisionBody):
    """A decision in a bulk request, with the id of its interrupt."""

    interrupt = StrictUUIDField()
    etag = StrictCharField(
        max_length=200,
        required=False,
        help_text="The interrupt's ETag. The decision fails with 412 if the interrupt has changed.",
    )


class BulkBody(StrictSerializer):
    """Several decisions, each for a different interrupt."""

    decisions = serializers.ListField(child=BulkItem(), min_length=1, max_length=MAX_BULK_DECISIONS)


class BulkResultSerializer(serializers.Serializer):
    """The result of one of several decisions."""

    interrupt = StrictUUIDField()
    status = serializers.IntegerField(
        help_text="The HTTP status this decision would have returned on its own."
    )
    repeated = serializers.BooleanField(help_text="Whether the request had already been processed.")
    decision = DecisionSerializer(allow_null=True)
    problem = ProblemField(allow_null=True, help_text="The problem, if the decision was rejected.")


class BulkResultsSerializer(serializers.Serializer):
    """The results of several decisions, in the order of the request."""

    results = BulkResultSerializer(many=True)
