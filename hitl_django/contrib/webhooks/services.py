"""Services of webhooks: create, change and test them, and redeliver."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from hitl_django import audit
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.dialects import UNSET
from hitl_django.engine.arguments import check_names
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models.functions import Now
from hitl_django.permissions import find_row, get_policy, select_visible, select_visible_through
from hitl_django.services.results import read_fields

from . import messages, outbox, tasks
from .addresses import AddressRefused, check_url
from .errors import WebhookNotFound
from .event_labels import TEST
from .models import Delivery, WebhookEndpoint
from .signatures import make_secret

logger = logging.getLogger("hitl_django")

#: Time for which the previous secret also signs deliveries.
OVERLAP = timedelta(hours=24)
DESCRIPTION_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookInfo:
    """A webhook.

    ``secret`` is set only after creation and rotation.
    """

    id: UUID
    url: str
    description: str
    events: Sequence[str]
    graphs: Sequence[str]
    with_interrupt: bool
    is_active: bool
    stopped: str
    failures: int
    paused_until: datetime | None
    created_by_label: str
    created_at: datetime
    secret: str = field(default="", repr=False)

    @classmethod
    def from_row(cls, endpoint: WebhookEndpoint, *, secret: str = "") -> WebhookInfo:
        return cls(**read_fields(cls, endpoint, but=["secret"]), secret=secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryInfo:
    """A delivery to a webhook."""

    id: UUID
    endpoint_id: UUID
    event: str
    data: dict[str, Any]
    state: str
    attempts: int
    status: int | None
    fault: str
    created_at: datetime
    due_at: datetime
    finished_at: datetime | None

    @classmethod
    def from_row(cls, delivery: Delivery) -> DeliveryInfo:
        return cls(**read_fields(cls, delivery))


def create_webhook(
    url: str,
    *,
    events: Collection[str] = (),
    graphs: Collection[str] = (),
    description: str = "",
    with_interrupt: bool = False,
    is_active: bool = True,
    by: Any = None,
) -> WebhookInfo:
    """Create a webhook. Only the returned value contains the webhook's secret.

    Events in the first five seconds after the creation can be missed, because processes cache
    endpoints.

    Args:
        events: the names of events, or empty for all events.
        graphs: the names of graphs, or empty for all graphs.
        with_interrupt: whether deliveries include the content of interrupts.

    Raises:
        NotAllowedError: if ``by`` may not manage webhooks.
        InvalidInputError: if the URL can't be called, or an event or graph doesn't exist.
        TypeError: if ``events`` or ``graphs`` isn't a list of names.
    """
    _refuse_if_not_allowed(by)
    secret = make_secret()
    row = WebhookEndpoint(
        **_check_values(url=url, events=events, graphs=graphs, description=description),
        with_interrupt=with_interrupt,
        is_active=is_active,
        secret=secret,
        created_by=by,
        created_by_label=audit.label_user(by),
    )
    row.save(using=write_alias(), force_insert=True)
    outbox.clear_listeners()
    logger.info("webhook %s created by %s", row.pk, _name(by))
    row.refresh_from_db(write_alias())
    return WebhookInfo.from_row(row, secret=secret)


def check_webhook(**given: Any) -> None:
    """Raise InvalidInputError if a webhook can't have these values.

    The error contains all faults.
    """
    _check_values(**given)


def change_webhook(webhook_id: UUID | str, *, by: Any = None, **changes: Any) -> WebhookInfo:
    """Change a webhook.

    Activating a webhook again resets its number of failures. A user who changes the URL, or enables
    the content of interrupts, becomes the webhook's creator. The webhook then sends only interrupts
    that this user may view.
    """
    row = _managed(webhook_id, by)
    known = {"url", "events", "graphs", "description", "with_interrupt", "is_active"}
    if unknown := changes.keys() - known:
        raise TypeError(f"Unknown webhook fields: {', '.join(sorted(unknown))}.")
    values = {**changes, **_check_values(**{key: changes.get(key, UNSET) for key in known})}
    if values.get("is_active") or "url" in values:
        values |= {"failures": 0, "paused_until": None, "stopped": ""}
    moves = values.get("url", row.url) != row.url
    sends_more = values.get("with_interrupt", False) and not row.with_interrupt
    if moves or sends_more:
        values |= {"created_by": by, "created_by_label": audit.label_user(by)}
    if not _rows().filter(pk=row.pk).update(**values):
        raise WebhookNotFound  # The webhook was deleted since it was read.
    outbox.clear_listeners()
    logger.info("webhook %s changed by %s: %s", row.pk, _name(by), ", ".join(sorted(changes)))
    row.refresh_from_db(write_alias())
    if row.is_active:
        batch = WriteBatch(write_alias())
        # Send deliveries that were waiting for the activation.
        tasks.enqueue_delivery(row.pk, batch)
        batch.run()
    return WebhookInfo.from_row(row)


@retry_on_conflict
def delete_webhook(webhook_id: UUID | str, *, by: Any = None) -> None:
    """Delete a webhook and its deliveries."""
    row = _managed(webhook_id, by)
    # Django also deletes the webhook's deliveries, in one transaction.
    row.delete(using=write_alias())
    outbox.clear_listeners()
    logger.info("webhook %s deleted by %s", webhook_id, _name(by))


@retry_on_conflict
def rotate_secret(webhook_id: UUID | str, *, by: Any = None) -> WebhookInfo:
    """Replace the secret of a webhook, and return the webhook with the new secret.

    For one day, deliveries are signed with both secrets.
    """
    row = _managed(webhook_id, by)
    secret = make_secret()
    # Use one statement, so that concurrent rotations run one after the other and preserve the
    # previous secret.
    changes = {"old_secret": F("secret"), "old_secret_until": Now() + OVERLAP, "secret": secret}
    if not _rows().filter(pk=row.pk).update(**changes):
        raise WebhookNotFound  # The webhook was deleted since it was read.
    logger.info("webhook %s: secret rotated by %s", row.pk, _name(by))
    return WebhookInfo.from_row(row, secret=secret)


@retry_on_conflict
def send_test_event(webhook_id: UUID | str, *, by: Any = None) -> DeliveryInfo:
    """Queue a test delivery.

    The delivery is sent even if the endpoint is paused.
    """
    row = _managed(webhook_id, by)
    with transaction.atomic(using=write_alias()):
        _rows().filter(pk=row.pk).update(paused_until=None)
        batch = WriteBatch(write_alias())
        [added] = outbox.add_messages(batch, TEST, {}, [row.pk])
        batch.run()
    return DeliveryInfo.from_row(_deliveries().get(pk=added))


@retry_on_conflict
def redeliver(delivery_id: UUID | str, *, by: Any = None) -> DeliveryInfo:
    """Queue a finished delivery again.

    The delivery has the same id.
    """
    seen = select_visible_through(_deliveries(), "endpoint", by)
    delivery = find_row(seen, WebhookNotFound, pk=delivery_id)
    _refuse_if_not_allowed(by)
    with transaction.atomic(using=write_alias()):
        # Zero rows: the delivery is still pending, so it will be sent without a change.
        _deliveries().filter(pk=delivery.pk).exclude(state=Delivery.State.PENDING).update(
            state=Delivery.State.PENDING, attempts=0, due_at=Now(), finished_at=None, fault=""
        )
        # The endpoint may belong to any channel.
        endpoints = WebhookEndpoint.objects.using(write_alias())
        endpoints.filter(pk=delivery.endpoint_id).update(paused_until=None)
        batch = WriteBatch(write_alias())
        tasks.enqueue_delivery(delivery.endpoint_id, batch)
        batch.run()
    logger.info("delivery %s: redelivered by %s", delivery.pk, _name(by))
    delivery.refresh_from_db(write_alias())
    return DeliveryInfo.from_row(delivery)


def _check_values(**given: Any) -> dict[str, Any]:
    values, faults = {}, []
    known = {"events": messages.list_events(), "graphs": frozenset(registry.list_names())}
    for name, value in given.items():
        if value is UNSET:
            continue
        if name == "url":
            try:
                check_url(value)
            except AddressRefused as refusal:
                faults.append((name, str(refusal)))
        elif name in known:
            value = sorted(set(check_names(name, value)))
            faults += [(name, f"{each!r} is unknown") for each in value if each not in known[name]]
        elif name == "description":
            value = escape_unstorable(value)
            if len(value) > DESCRIPTION_LENGTH:
                faults.append((name, f"is longer than {DESCRIPTION_LENGTH} characters"))
        values[name] = value
    if faults:
        what, reason = faults[0]
        raise InvalidInputError(f"The webhook's {what}: {reason}", faults)
    return values


def _managed(webhook_id: UUID | str, by: Any) -> WebhookEndpoint:
    row = find_row(select_visible(_rows(), by), WebhookNotFound, pk=webhook_id)
    _refuse_if_not_allowed(by)
    return row


def may_manage(user: Any) -> bool:
    return get_policy().has_permission(user, "hitl_webhooks.manage_webhooks")


def _refuse_if_not_allowed(by: Any) -> None:
    if by is not None and not may_manage(by):
        raise NotAllowedError("You don't have permission to manage webhooks.")


def _rows() -> QuerySet[WebhookEndpoint]:
    rows = WebhookEndpoint.objects.using(write_alias())
    return rows.filter(channel=messages.WEBHOOK.name)


def _deliveries() -> QuerySet[Delivery]:
    return Delivery.objects.using(write_alias())


def _name(by: Any) -> Any:
    return audit.SYSTEM if by is None else by.pk
