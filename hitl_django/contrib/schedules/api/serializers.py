"""Serializers of schedules."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    ContextField,
    HyperlinkField,
    JSONObjectField,
    JSONValueField,
    MethodField,
    OffsetDateTimeField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictSerializer,
    StrictUUIDField,
)
from hitl_django.graph_registry import registry

from .. import cron
from ..models import Schedule


class ScheduleChange(StrictSerializer):
    """Request body for changing a schedule.

    Omitted fields don't change.
    """

    expression = StrictCharField(
        max_length=cron.EXPRESSION_LENGTH,
        required=False,
        help_text="Cron expression with five fields: minute, hour, day of month, month, "
        "day of week.",
    )
    timezone = StrictCharField(
        max_length=cron.TIMEZONE_LENGTH,
        required=False,
        help_text="Time zone of the expression, for example Europe/Berlin.",
    )
    input = JSONValueField(
        required=False, help_text="Input matching the graph's input_schema; not null."
    )
    context: Any = ContextField(
        help_text="An object that matches the graph's context_schema. Not shown again."
    )
    configurable = JSONObjectField(
        required=False, help_text="Keys that the nodes find in their config's configurable."
    )
    metadata = JSONObjectField(
        required=False, help_text="Metadata stored with each run and with new threads."
    )
    overlap = StrictChoiceField(
        choices=Schedule.Overlap.values,
        required=False,
        help_text="What to do at a due time while the previous run, or a run of the thread, has "
        "not ended.",
    )
    ends_at = OffsetDateTimeField(
        required=False, allow_null=True, help_text="Time after which no runs are started."
    )
    description = StrictCharField(max_length=255, allow_blank=True, required=False)
    active = StrictBooleanField(
        source="is_active", required=False, help_text="Set to false to pause the schedule."
    )


class ScheduleBody(ScheduleChange):
    """Request body for creating a schedule."""

    graph = StrictCharField(max_length=200, help_text="Graph name from graphs/.")
    expression = StrictCharField(
        max_length=cron.EXPRESSION_LENGTH,
        help_text="Cron expression with five fields: minute, hour, day of month, month, "
        "day of week.",
    )
    input = JSONValueField(help_text="Input matching the graph's input_schema; not null.")
    thread_id = StrictCharField(
        max_length=255,
        required=False,
        help_text="Id of the thread that each run continues, instead of a new thread for each run.",
    )


class ScheduleSerializer(serializers.Serializer):
    """A schedule."""

    id = StrictUUIDField()
    url = HyperlinkField("schedule", source="id")
    graph = serializers.CharField()
    description = serializers.CharField()
    expression = serializers.CharField()
    timezone = serializers.CharField()
    input = MethodField(JSONValueField(help_text="What each run is started with; without secrets."))
    thread_id = serializers.CharField(
        allow_null=True, help_text="Thread that each run continues; null if each run has a new one."
    )
    metadata = JSONObjectField()
    overlap = StrictChoiceField(choices=Schedule.Overlap.values)
    registered = serializers.BooleanField(
        source="is_registered",
        help_text="Whether the schedule is defined in code; it can then only be changed there.",
    )
    active = serializers.BooleanField(source="is_active")
    next_at = OffsetDateTimeField(
        allow_null=True, help_text="Next due time, unless paused; null if there is none."
    )
    ends_at = OffsetDateTimeField(allow_null=True)
    started = serializers.IntegerField(help_text="Number of runs started.")
    last_due_at = OffsetDateTimeField(allow_null=True)
    last_run_id = StrictUUIDField(allow_null=True)
    skipped = serializers.IntegerField(help_text="Number of due times skipped.")
    last_skipped_at = OffsetDateTimeField(allow_null=True)
    last_error = serializers.CharField(help_text="Why no run was started at the last due time.")
    owner = serializers.CharField(
        source="owner_label", help_text="User on whose behalf runs are started."
    )
    created_at = OffsetDateTimeField()
    updated_at = OffsetDateTimeField()

    def get_input(self, schedule: Any) -> Any:
        return registry.mask_values(schedule.graph, schedule.input)
