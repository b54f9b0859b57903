"""The webhook channel: body and headers of a delivery.

The body contains ids, a time and links. An endpoint can be configured to include the content of the
interrupt. The content is read when the delivery is sent. It is omitted if the interrupt has changed
or was erased, or if the endpoint's creator may not view it.
"""

from __future__ import annotations

import json
import time
from time import monotonic
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from hitl_django.audit import SYSTEM
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_utc
from hitl_django.events import EventName
from hitl_django.extensions import list_extensions
from hitl_django.models import Interrupt
from hitl_django.models.review import LARGE_COLUMNS, MESSAGE_COLUMNS
from hitl_django.page_urls import find_request_url, find_url
from hitl_django.permissions import get_policy

from .channels import AttemptResult, Channel
from .http_post import post_body
from .models import Delivery, WebhookEndpoint
from .signatures import sign_message

#: Names of links, each with the view and the id that the view needs.
LINKS = (
    ("interrupt", "hitl_django:interrupt", "interrupt_id"),
    ("run", "hitl_django:run", "run_id"),
)


#: Events of the core that webhooks receive. The others are only for notifications of people.
EVENTS = frozenset(EventName) - {
    EventName.INTERRUPT_ASSIGNED,
    EventName.INTERRUPT_MENTIONED,
    EventName.INTERRUPT_OVERDUE,
}


def list_events() -> frozenset[str]:
    """Return the names of the events to which webhooks can subscribe."""
    return EVENTS.union(*(extension.events for extension in list_extensions()))


def send_webhook(delivery: Delivery, endpoint: WebhookEndpoint, deadline: float) -> AttemptResult:
    """Send a signed delivery to a webhook with a POST request."""
    body = build_body(delivery, endpoint)
    headers = build_headers(delivery, endpoint, body)
    return post_body(endpoint.url, headers, body, deadline - monotonic())


WEBHOOK = Channel("webhook", list_events, send_webhook)


def build_body(delivery: Delivery, endpoint: WebhookEndpoint) -> bytes:
    """Return the body of a delivery, as JSON in ASCII."""
    data: dict[str, Any] = {**delivery.data}
    if links := _links(data):
        data["links"] = links
    if endpoint.with_interrupt and (interrupt := _interrupt(data, endpoint)) is not None:
        data["interrupt"] = interrupt
    happened = to_utc(delivery.created_at)
    body = {
        "type": delivery.event,
        "timestamp": happened.isoformat().replace("+00:00", "Z"),
        "data": data,
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def build_headers(delivery: Delivery, endpoint: WebhookEndpoint, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery, with its id and the signatures."""
    message_id, now = str(delivery.pk), int(time.time())
    secrets = [endpoint.secret]
    if endpoint.old_secret_until is not None and endpoint.old_secret_until > timezone.now():
        secrets.append(endpoint.old_secret)
    return {
        "Content-Type": "application/json",
        "User-Agent": "hitl-django",
        "Webhook-Id": message_id,
        "Webhook-Timestamp": str(now),
        "Webhook-Signature": " ".join(
            sign_message(secret, message_id, now, body) for secret in secrets
        ),
    }


def _links(data: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, view, key in LINKS if hitl.SITE_URL else ():
        if key in data and (url := find_url(view, data[key])) is not None:
            found[name] = url
    if "interrupt_id" in data:
        rows = Interrupt.objects.using(write_alias()).select_related("run", "thread")
        interrupt = rows.filter(pk=UUID(data["interrupt_id"])).defer(*LARGE_COLUMNS).first()
        if interrupt is not None and (url := find_request_url(interrupt)):
            found["review"] = url
    return found


def _interrupt(data: dict[str, Any], endpoint: WebhookEndpoint) -> dict[str, Any] | None:
    if "interrupt_id" not in data:
        return None
    rows = Interrupt.objects.using(write_alias()).filter(pk=UUID(data["interrupt_id"]))
    interrupt = select_visible_to_creator(endpoint, rows).first()
    if interrupt is None or interrupt.payload_digest != data.get("digest"):
        return None
    return {name: getattr(interrupt, name) for name in MESSAGE_COLUMNS}


def select_visible_to_creator(
    endpoint: WebhookEndpoint, rows: QuerySet[Interrupt]
) -> QuerySet[Interrupt]:
    """Narrow ``rows`` to the interrupts that the endpoint's creator may view now."""
    if endpoint.created_by is not None:
        return get_policy().visible_interrupts(endpoint.created_by, rows)
    # Without a creator, the endpoint was created by code or the account was deleted.
    return rows if endpoint.created_by_label == SYSTEM else rows.none()
