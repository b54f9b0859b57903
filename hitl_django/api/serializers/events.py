"""Events of a run, and the query that pages them."""

from __future__ import annotations

from rest_framework import serializers

from hitl_django.models import Run

from .fields import (
    Choice,
    JSONValueField,
    OffsetDateTimeField,
    Query,
    RowLimit,
    StrictIntegerField,
)


class EventsQuery(Query):
    """From where on, how many, and how long to wait for the first of them."""

    after = StrictIntegerField(
        most=10**9 - 1, required=False, help_text="The number of the last event that you have; 0."
    )
    limit = RowLimit(required=False, help_text="How many at once; 100.")
    wait = StrictIntegerField(
        most=3600,
        required=False,
        help_text="Seconds to wait where there is none yet; no longer than EVENT_WAIT_SECONDS.",
    )


class EventSerializer(serializers.Serializer):
    """One thing that became of a run."""

    seq = serializers.IntegerField(help_text="Numbered from 1, without gaps.")
    kind = serializers.CharField(help_text="A state of the run, or a stream mode of the engine.")
    namespace = serializers.ListField(
        child=serializers.CharField(),
        help_text="The way to the graph further down that it is about; empty: the run's own.",
    )
    created_at = OffsetDateTimeField()
    data = JSONValueField()  # type: ignore[assignment]  # a member, not the attribute
    truncated = serializers.BooleanField(help_text="There was more than is kept of it.")
    withheld = serializers.BooleanField(help_text="Its data is for who may see state.")


class EventPageSerializer(serializers.Serializer):
    """Events of a run, in order."""

    results = EventSerializer(many=True, source="events")
    last = serializers.IntegerField(help_text="The number to give as `after` next.")
    state = Choice(choices=Run.State.values)
    ended = serializers.BooleanField(help_text="The run has ended, and that was its last event.")
