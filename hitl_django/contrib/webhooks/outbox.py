"""The transactional outbox: deliveries written in the transaction of their event.

``write_messages`` subscribes to the events. Each process rereads the endpoints every LOOK_SECONDS,
so a new or changed endpoint gets events after that time at the latest. ``delivery`` sends the rows
through their ``channels``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.ids import new_id
from hitl_django.extensions import Event

from . import channels, tasks
from .models import Delivery, WebhookEndpoint

#: Seconds for which a process caches the endpoints.
LOOK_SECONDS = 5.0

_NEW = BulkInsert(
    Delivery, ["id", "endpoint_id", "event", "data", "state", "attempts", "fault"], fresh=True
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The columns of an endpoint that decide which deliveries it gets."""

    id: UUID
    events: frozenset[str]
    graphs: frozenset[str]
    group: str
    is_personal: bool

    def wants(self, event: Event) -> bool:
        wanted = event.name in self.events and self.group in ("", event.group)
        if self.is_personal and not event.is_assigned:
            return False
        return wanted and (not self.graphs or event.graph in self.graphs)


#: The active endpoints of a database, and when to reread them.
_known: dict[str, tuple[float, tuple[Subscription, ...]]] = {}


def write_messages(batch: WriteBatch, event: Event) -> None:
    """Write a delivery to each subscribed endpoint: ids, without contents."""
    listeners = _listeners(batch.using)
    if listeners:
        endpoints = [listener.id for listener in listeners if listener.wants(event)]
        add_messages(batch, event.name, event.data, endpoints)


def add_messages(
    batch: WriteBatch, event: str, data: Mapping[str, Any], endpoints: Sequence[UUID]
) -> list[UUID]:
    """Add a delivery to each endpoint, regardless of its subscription; return their ids."""
    plain = {key: str(value) for key, value in data.items()}
    made = [new_id() for _ in endpoints]
    pending = str(Delivery.State.PENDING)
    rows = [
        [pk, endpoint, str(event), plain, pending, 0, ""]
        for pk, endpoint in zip(made, endpoints, strict=True)
    ]
    batch.insert(_NEW, rows)
    for endpoint in endpoints:
        tasks.enqueue_delivery(endpoint, batch)
    return made


def list_user_keys(delivery: Delivery) -> list[str]:
    """List the keys of the users that a delivery names."""
    data = delivery.data
    return [*(data.get(name, "") for name in ("to", "by", "user")), *data.get("users", "").split()]


def clear_listeners() -> None:
    """Clear this process's cache of endpoints after a change."""
    _known.clear()


def _listeners(using: str) -> tuple[Subscription, ...]:
    found = _known.get(using)
    if found is not None and monotonic() < found[0]:
        return found[1]
    # The time is taken before the query, which may miss later commits.
    until = monotonic() + LOOK_SECONDS
    rows = WebhookEndpoint.objects.using(using).filter(is_active=True)
    columns = ("pk", "channel", "events", "graphs", "group_label")
    listeners = tuple(
        Subscription(
            row.pk,
            frozenset(row.events) or channel.list_events(),
            frozenset(row.graphs),
            row.group_label,
            channel.is_personal,
        )
        for row in rows.values_list(*columns, named=True)
        if (channel := channels.find_channel(row.channel)) is not None
    )
    _known[using] = until, listeners
    return listeners
