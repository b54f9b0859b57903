"""Serializers of webhooks and deliveries."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    HyperlinkField,
    JSONObjectField,
    OffsetDateTimeField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictSerializer,
    StrictUUIDField,
)

from ..event_labels import list_labels
from ..messages import list_events
from ..models import Delivery


def _events(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=StrictChoiceField(choices=sorted(list_events())), **options)


class WebhookChange(StrictSerializer):
    """Request body for changing a webhook.

    Omitted fields don't change.
    """

    url = StrictCharField(
        max_length=2000,
        required=False,
        help_text="URL to deliver to: https and publicly reachable.",
    )
    description = StrictCharField(max_length=255, allow_blank=True, required=False)
    events = _events(max_length=50, required=False, help_text="Event types; empty for all.")
    graphs = serializers.ListField(
        child=StrictCharField(max_length=200),
        max_length=200,
        required=False,
        help_text="Graph names; empty for all.",
    )
    with_interrupt = StrictBooleanField(
        required=False, help_text="Include the interrupt's content in deliveries."
    )
    active = StrictBooleanField(source="is_active", required=False)


class WebhookBody(WebhookChange):
    """Request body for creating a webhook."""

    url = StrictCharField(
        max_length=2000, help_text="URL to deliver to: https and publicly reachable."
    )


class WebhookSerializer(serializers.Serializer):
    """A webhook."""

    id = StrictUUIDField()
    self = HyperlinkField("webhook", source="id")
    deliveries = HyperlinkField("deliveries", source="id")
    url = serializers.CharField()
    description = serializers.CharField()
    events = _events()
    graphs = serializers.ListField(child=serializers.CharField())
    with_interrupt = serializers.BooleanField()
    active = serializers.BooleanField(source="is_active")
    stopped = serializers.CharField(help_text="Why the webhook was disabled automatically.")
    failures = serializers.IntegerField(help_text="Consecutive failures.")
    paused_until = OffsetDateTimeField(
        allow_null=True, help_text="Deliveries are paused until this time because of failures."
    )
    created_by = serializers.CharField(
        source="created_by_label",
        help_text="The user who created the webhook or last changed its URL. Deliveries "
        "contain only what this user can view.",
    )
    created_at = OffsetDateTimeField()


class NewWebhookSerializer(WebhookSerializer):
    """A new webhook, or a webhook with a rotated secret. No other response contains the secret."""

    secret = serializers.CharField(help_text="Signing secret. It is not shown again.")


class DeliverySerializer(serializers.Serializer):
    """A delivery to a webhook."""

    id = StrictUUIDField(help_text="The delivery's webhook-id header.")
    url = HyperlinkField("delivery", source="id")
    webhook = StrictUUIDField(source="endpoint_id")
    event = StrictChoiceField(choices=[*list_labels()])
    about = JSONObjectField(source="data", help_text="Ids of the objects the event is about.")
    state = StrictChoiceField(choices=Delivery.State.values)
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True, help_text="HTTP status of the last attempt.")
    fault = serializers.CharField(help_text="Why the last attempt failed.")
    created_at = OffsetDateTimeField()
    due_at = OffsetDateTimeField()
    finished_at = OffsetDateTimeField(allow_null=True)
