"""Health of the workers."""

from __future__ import annotations

from rest_framework import serializers

from .fields import (
    Moment,
)


class WorkerHealthSerializer(serializers.Serializer):
    """How the workers are."""

    alive = serializers.BooleanField(source="is_alive")
    workers = serializers.IntegerField()
    driving = serializers.IntegerField()
    last_seen = Moment(allow_null=True)
    overdue = serializers.IntegerField()
    due_since = Moment(allow_null=True)
