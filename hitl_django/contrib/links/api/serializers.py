"""Serializers of review links."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    OffsetDateTimeField,
    StrictCharField,
    StrictChoiceField,
    StrictSerializer,
    StrictUUIDField,
)
from hitl_django.decision_types import DECISION_TYPES

from ..services import LinkState


def _decisions(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=StrictChoiceField(choices=list(DECISION_TYPES)), **options)


class LinkBody(StrictSerializer):
    """Request body for creating a review link."""

    name = StrictCharField(
        max_length=255, help_text="Name of the recipient. Recorded with the decision."
    )
    email = StrictCharField(
        max_length=254,
        allow_blank=True,
        required=False,
        help_text="For reference only; no email is sent.",
    )
    decisions = _decisions(
        max_length=10, required=False, help_text="Decisions the link allows; empty for all."
    )
    expires_at = OffsetDateTimeField(
        source="expires", required=False, help_text="Default: in 7 days."
    )


class LinkSerializer(serializers.Serializer):
    """A review link with its state."""

    id = StrictUUIDField()
    interrupt = StrictUUIDField(source="interrupt_id")
    name = serializers.CharField()
    email = serializers.CharField()
    decisions = _decisions()
    state = StrictChoiceField(choices=[str(state) for state in LinkState])
    created_by = serializers.CharField(source="created_by_label")
    created_at = OffsetDateTimeField()
    expires_at = OffsetDateTimeField()
    used_at = OffsetDateTimeField(allow_null=True)
    revoked_at = OffsetDateTimeField(allow_null=True)


class NewLinkSerializer(LinkSerializer):
    """A new review link with its URL. Only this response contains the URL."""

    url = serializers.CharField(
        help_text="The link to send to the recipient. It is not shown again."
    )
