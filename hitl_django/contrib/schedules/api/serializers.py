"""Schedules: the bodies that make and change one, and how it is shown."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    Choice,
    ContextField,
    Hyperlink,
    Id,
    JSONObject,
    JSONValueField,
    MethodField,
    OffsetDateTimeField,
    StrictBooleanField,
    StrictCharField,
    StrictSerializer,
)
from hitl_django.graph_registry import registry

from .. import cron
from ..models import Schedule


class ScheduleChange(StrictSerializer):
    """What of a schedule is to be another; what isn't named stays."""

    expression = StrictCharField(
        max_length=cron.EXPRESSION_LENGTH,
        required=False,
        help_text="Minute, hour, day of the month, month, day of the week, as in cron.",
    )
    timezone = StrictCharField(
        max_length=cron.TIMEZONE_LENGTH,
        required=False,
        help_text="Whose wall clock the expression is about, such as Europe/Berlin.",
    )
    input = JSONValueField(
        required=False, help_text="What the graph's input_schema describes; not null."
    )
    context: Any = ContextField(
        help_text="What the graph's context_schema describes; it is not shown again."
    )
    configurable = JSONObject(
        required=False, help_text="Keys that the nodes find in their config's configurable."
    )
    overlap = Choice(
        choices=Schedule.Overlap.values,
        required=False,
        help_text="What becomes of a due time while the run before isn't over.",
    )
    description = StrictCharField(max_length=255, allow_blank=True, required=False)
    active = StrictBooleanField(source="is_active", required=False, help_text="False pauses it.")


class ScheduleBody(ScheduleChange):
    """A schedule that is to be made."""

    graph = StrictCharField(max_length=200, help_text="A name from graphs/.")
    expression = StrictCharField(
        max_length=cron.EXPRESSION_LENGTH,
        help_text="Minute, hour, day of the month, month, day of the week, as in cron.",
    )
    input = JSONValueField(help_text="What the graph's input_schema describes; not null.")


class ScheduleSerializer(serializers.Serializer):
    """A schedule: what it starts when, and how far it has come."""

    id = Id()
    url = Hyperlink("schedule", source="id")
    graph = serializers.CharField()
    description = serializers.CharField()
    expression = serializers.CharField()
    timezone = serializers.CharField()
    input = MethodField(JSONValueField(help_text="What each run is started with; without secrets."))
    overlap = Choice(choices=Schedule.Overlap.values)
    registered = serializers.BooleanField(
        source="is_registered", help_text="Whether the code made it, where it is changed as well."
    )
    active = serializers.BooleanField(source="is_active")
    next_at = OffsetDateTimeField(
        allow_null=True, help_text="When it is due next, unless it is paused; null: never again."
    )
    started = serializers.IntegerField(help_text="How many runs.")
    last_due_at = OffsetDateTimeField(allow_null=True)
    last_run_id = Id(allow_null=True)
    skipped = serializers.IntegerField(help_text="How many due times have no run.")
    last_skipped_at = OffsetDateTimeField(allow_null=True)
    last_error = serializers.CharField(help_text="Why it started nothing when it was due last.")
    owner = serializers.CharField(source="owner_label", help_text="In whose name runs are started.")
    created_at = OffsetDateTimeField()

    def get_input(self, schedule: Any) -> Any:
        return registry.mask_values(schedule.graph, schedule.input)
