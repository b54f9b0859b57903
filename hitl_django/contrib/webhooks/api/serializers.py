"""Webhooks and their deliveries: the bodies that make and change one, and how they are shown."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    Choice,
    Hyperlink,
    Id,
    JSONObject,
    OffsetDateTimeField,
    StrictBooleanField,
    StrictCharField,
    StrictSerializer,
)

from ..event_labels import list_labels
from ..messages import list_events
from ..models import Delivery


def _events(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Choice(choices=sorted(list_events())), **options)


class WebhookChange(StrictSerializer):
    """What of a webhook is to be another; what isn't named stays."""

    url = StrictCharField(
        max_length=2000, required=False, help_text="Where to send to: https, and public."
    )
    description = StrictCharField(max_length=255, allow_blank=True, required=False)
    events = _events(max_length=50, required=False, help_text="Empty: all of them.")
    graphs = serializers.ListField(
        child=StrictCharField(max_length=200),
        max_length=200,
        required=False,
        help_text="Empty: all of them.",
    )
    with_interrupt = StrictBooleanField(required=False, help_text="Send what is asked along.")
    active = StrictBooleanField(source="is_active", required=False)


class WebhookBody(WebhookChange):
    """A webhook that is to be made."""

    url = StrictCharField(max_length=2000, help_text="Where to send to: https, and public.")


class WebhookSerializer(serializers.Serializer):
    """A webhook: where it leads, what it hears of, and how it is."""

    id = Id()
    self = Hyperlink("webhook", source="id")
    deliveries = Hyperlink("deliveries", source="id")
    url = serializers.CharField()
    description = serializers.CharField()
    events = _events()
    graphs = serializers.ListField(child=serializers.CharField())
    with_interrupt = serializers.BooleanField()
    active = serializers.BooleanField(source="is_active")
    stopped = serializers.CharField(help_text="Why it isn't active, if nobody turned it off.")
    failures = serializers.IntegerField(help_text="In a row, up to now.")
    rests_until = OffsetDateTimeField(
        allow_null=True, help_text="Until when nothing is sent, for failing."
    )
    created_by = serializers.CharField(
        source="created_by_label",
        help_text="Who made it, or has since said where it leads: it tells of what they may see.",
    )
    created_at = OffsetDateTimeField()


class NewWebhookSerializer(WebhookSerializer):
    """A webhook with its secret, which is shown this once."""

    secret = serializers.CharField(help_text="For checking signatures; nothing shows it again.")


class DeliverySerializer(serializers.Serializer):
    """A message to a webhook, and how far it has come."""

    id = Id(help_text="The message's webhook-id.")
    url = Hyperlink("delivery", source="id")
    webhook = Id(source="endpoint_id")
    event = Choice(choices=[*list_labels()])
    about = JSONObject(source="data", help_text="What it tells of, by id.")
    state = Choice(choices=Delivery.State.values)
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True, help_text="What the last attempt was told.")
    fault = serializers.CharField(help_text="Why the last attempt doesn't count as received.")
    created_at = OffsetDateTimeField()
    due_at = OffsetDateTimeField()
    finished_at = OffsetDateTimeField(allow_null=True)
