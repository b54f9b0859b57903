"""Serializers of run events, and of the query for pages of run events."""

from __future__ import annotations

from rest_framework import serializers

from hitl_django.models import Run

from .fields import (
    JSONValueField,
    OffsetDateTimeField,
    Query,
    RowLimitField,
    StrictChoiceField,
    StrictIntegerField,
)


class EventsQuery(Query):
    """Query parameters for a page of events: start, size, and time to wait for the first event."""

    after = StrictIntegerField(
        most=10**9 - 1, required=False, help_text="Return events after this number. Default: 0."
    )
    limit = RowLimitField(required=False, help_text="Page size. Default: 100.")
    wait = StrictIntegerField(
        most=3600,
        required=False,
        help_text="Seconds to wait for the first event, at most EVENT_WAIT_SECONDS.",
    )


class EventSerializer(serializers.Serializer):
    """One event of a run."""

    seq = serializers.IntegerField(help_text="Sequence number, starting at 1 without gaps.")
    kind = serializers.CharField(help_text="A run state or an engine stream mode.")
    namespace = serializers.ListField(
        child=serializers.CharField(),
        help_text="Namespace of the subgraph; empty for the run's own graph.",
    )
    created_at = OffsetDateTimeField()
    data = JSONValueField()  # type: ignore[assignment]  # a member, not the attribute
    truncated = serializers.BooleanField(help_text="The data was truncated.")
    withheld = serializers.BooleanField(
        help_text="The data is omitted because you can't view the thread's state."
    )


class EventPageSerializer(serializers.Serializer):
    """A page of a run's events, in order."""

    results = EventSerializer(many=True, source="events")
    last = serializers.IntegerField(help_text="Pass this as `after` to get the next page.")
    state = StrictChoiceField(choices=Run.State.values)
    ended = serializers.BooleanField(help_text="The run has ended and this was its last event.")
