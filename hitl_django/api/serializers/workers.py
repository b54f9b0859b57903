"""Health of the workers."""

from __future__ import annotations

from rest_framework import serializers

from .fields import (
    OffsetDateTimeField,
)


class WorkerHealthSerializer(serializers.Serializer):
    """How the workers are."""

    alive = serializers.BooleanField(source="is_alive")
    workers = serializers.IntegerField()
    driving = serializers.IntegerField()
    last_seen = OffsetDateTimeField(allow_null=True)
    overdue = serializers.IntegerField()
    due_since = OffsetDateTimeField(allow_null=True)
