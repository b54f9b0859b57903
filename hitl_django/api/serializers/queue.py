"""Serializers for claims, assignment, snoozing, comments and statistics of the queue."""

from __future__ import annotations

from rest_framework import serializers

from .fields import (
    OffsetDateTimeField,
    Query,
    StrictBooleanField,
    StrictCharField,
    StrictIntegerField,
    StrictSerializer,
    StrictUUIDField,
)

DAY = 86_400


class NextBody(StrictSerializer):
    """Request body for claiming the next interrupt, with filters by graph and group."""

    graph = StrictCharField(max_length=200, required=False)
    group = StrictCharField(max_length=150, required=False, help_text="Name of one of your groups.")


class ClaimBody(StrictSerializer):
    """The duration of a claim, and whether the claim replaces another user's claim."""

    seconds = StrictIntegerField(
        least=1, most=DAY, required=False, help_text="Default: CLAIM_SECONDS."
    )
    take_over = StrictBooleanField(
        required=False, help_text="Take over a claim from someone else; requires a permission."
    )


class UndoBody(StrictSerializer):
    """The id of the decision to undo, by default the decision that closed the interrupt."""

    decision = StrictUUIDField(
        required=False, help_text="Default: the decision that closed the interrupt."
    )


class ClaimSerializer(serializers.Serializer):
    """The user who has claimed an interrupt, and the end of the claim."""

    interrupt = StrictUUIDField(source="interrupt_id")
    claimed_by = serializers.CharField(source="claimed_by_label")
    until = OffsetDateTimeField()


class AssignBody(StrictSerializer):
    """The assignment of an interrupt to a user, a group or both.

    Without either, the assignment ends.
    """

    to = StrictCharField(max_length=254, required=False, allow_null=True, help_text="Username.")
    group = StrictCharField(
        max_length=150, required=False, allow_null=True, help_text="Group name."
    )


class SnoozeBody(StrictSerializer):
    """The end of a snooze, or null to end the snooze now."""

    until = OffsetDateTimeField(allow_null=True)


class CommentBody(StrictSerializer):
    """A comment of 1 to COMMENT_MAX_LENGTH characters."""

    text = StrictCharField(max_length=100_000)


class CommentSerializer(serializers.Serializer):
    """A comment on an interrupt."""

    id = StrictUUIDField()
    interrupt = StrictUUIDField(source="interrupt_id")
    text = serializers.CharField()
    by = serializers.CharField(source="by_label")
    via = serializers.CharField()
    created_at = OffsetDateTimeField()


class StatsQuery(Query):
    """The filters of the statistics."""

    graph = StrictCharField(max_length=200, required=False, help_text="Limit to one graph.")


class CountsSerializer(serializers.Serializer):
    """Counts of pending interrupts. Each count is at most 500."""

    mine = serializers.IntegerField(help_text="Claimed by you or assigned to you.")
    unclaimed = serializers.IntegerField(help_text="Unclaimed and available to you.")
    claimed = serializers.IntegerField(help_text="Claimed by others.")
    overdue = serializers.IntegerField()
    snoozed = serializers.IntegerField()
    pending = serializers.IntegerField(help_text="All pending interrupts.")


class StatsSerializer(serializers.Serializer):
    """Statistics of the pending interrupts you can view."""

    counts = CountsSerializer()
    oldest_at = OffsetDateTimeField(allow_null=True)
    median_seconds = serializers.FloatField(
        allow_null=True, help_text="Time to decision of the latest decisions."
    )
    approve_rate = serializers.FloatField(
        allow_null=True, help_text="Of the latest approvals and rejections."
    )
    last_heartbeat_at = OffsetDateTimeField(
        allow_null=True, help_text="When a worker last sent a heartbeat."
    )
