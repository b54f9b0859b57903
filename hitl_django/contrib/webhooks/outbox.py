"""The transactional outbox: messages to endpoints, written in the transaction of their event.

``write_messages`` subscribes to the events. Each process reads the endpoints every LOOK_SECONDS: a
new or changed endpoint gets the events after that time at the latest. Without an endpoint an event
costs a look at a tuple. ``delivery`` sends the rows through their ``channels``.
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

#: How long a process goes by what it has read of the endpoints.
LOOK_SECONDS = 5.0

_NEW = BulkInsert(
    Delivery, ["id", "endpoint_id", "event", "data", "state", "attempts", "fault"], fresh=True
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """An endpoint as far as it takes to know which messages it gets."""

    id: UUID
    events: frozenset[str]
    graphs: frozenset[str]
    group: str
    is_personal: bool

    def wants(self, event: Event) -> bool:
        """Return whether the endpoint gets a message about this event."""
        wanted = event.name in self.events and self.group in ("", event.group)
        if self.is_personal and not event.is_assigned:
            return False
        return wanted and (not self.graphs or event.graph in self.graphs)


#: The active endpoints of a database, and when they are to be read again.
_known: dict[str, tuple[float, tuple[Subscription, ...]]] = {}


def write_messages(batch: WriteBatch, event: Event) -> None:
    """Write a message to each endpoint that wants the event: ids, without contents."""
    listeners = _listeners(batch.using)
    if listeners:
        endpoints = [listener.id for listener in listeners if listener.wants(event)]
        add_messages(batch, event.name, event.data, endpoints)


def add_messages(
    batch: WriteBatch, event: str, data: Mapping[str, Any], endpoints: Sequence[UUID]
) -> list[UUID]:
    """Add a message to each of these endpoints, wanted or not; returns the messages' ids."""
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
    """List the keys of the users that a message is about, or for."""
    data = delivery.data
    return [*(data.get(name, "") for name in ("to", "by", "user")), *data.get("users", "").split()]


def clear_listeners() -> None:
    """Clear what this process knows of the endpoints, because it has just changed one."""
    _known.clear()


def _listeners(using: str) -> tuple[Subscription, ...]:
    found = _known.get(using)
    if found is not None and monotonic() < found[0]:
        return found[1]
    # Timed before the look: what is committed while it is taken may not be seen.
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
