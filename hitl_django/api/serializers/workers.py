"""Serializer of the workers' health."""

from __future__ import annotations

from rest_framework import serializers

from .fields import (
    OffsetDateTimeField,
)


class WorkerHealthSerializer(serializers.Serializer):
    """The health of the workers."""

    alive = serializers.BooleanField(source="is_alive")
    workers = serializers.IntegerField()
    running = serializers.IntegerField()
    last_seen = OffsetDateTimeField(allow_null=True)
    overdue = serializers.IntegerField()
    due_since = OffsetDateTimeField(allow_null=True)
