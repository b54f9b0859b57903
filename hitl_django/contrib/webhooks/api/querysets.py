"""Querysets of the webhooks and deliveries that a user may view."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.permissions import select_visible, select_visible_through

from ..messages import WEBHOOK
from ..models import Delivery, WebhookEndpoint


def visible_webhooks(user: Any) -> QuerySet[WebhookEndpoint]:
    rows = WebhookEndpoint.objects.using(write_alias()).filter(channel=WEBHOOK.name)
    return select_visible(rows, user)


def visible_deliveries(user: Any) -> QuerySet[Delivery]:
    return select_visible_through(Delivery.objects.using(write_alias()), "endpoint", user)
