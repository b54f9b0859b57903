"""The transactional outbox: deliveries are stored in the transaction of their event.

``write_messages`` subscribes to the events. Each process caches the endpoints for LOOK_SECONDS, so
a new or changed endpoint gets events after this time at the latest. The module ``delivery`` sends
the stored deliveries through their ``channels``.
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
    """The columns of an endpoint that determine which deliveries the endpoint gets."""

    id: UUID
    events: frozenset[str]
    graphs: frozenset[str]
    group: str
    is_personal: bool

    def wants(self, event: Event, *, any_group: bool = False) -> bool:
        wanted = event.name in self.events and (any_group or self.group in ("", event.group))
        if self.is_personal and not event.is_assigned:
            return False
        return wanted and (not self.graphs or event.graph in self.graphs)


#: The active endpoints by database, and the time at which to read them again.
_known: dict[str, tuple[float, tuple[Subscription, ...]]] = {}


def write_messages(batch: WriteBatch, event: Event, *, any_group: bool = False) -> None:
    """Add to the batch a delivery for each endpoint that subscribes to the event.

    The deliveries contain ids, but no contents. An endpoint with a group gets only events of this
    group, unless ``any_group`` is true.
    """
    listeners = _listeners(batch.using)
    if listeners:
        endpoints = [
            listener.id for listener in listeners if listener.wants(event, any_group=any_group)
        ]
        if endpoints:
            add_messages(batch, event.name, event.data, endpoints)


def add_messages(
    batch: WriteBatch, event: str, data: Mapping[str, Any], endpoints: Sequence[UUID]
) -> list[UUID]:
    """Add a delivery for each of these endpoints, independent of their subscriptions.

    Return the ids of the deliveries.
    """
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
    """Return the primary keys, as text, of the users in a delivery's data, such as the recipient.

    The list may contain empty texts.
    """
    data = delivery.data
    return [*(data.get(name, "") for name in ("to", "by", "user")), *data.get("users", "").split()]


def clear_listeners() -> None:
    """Clear this process's cache of endpoints.

    Call this after a change of an endpoint.
    """
    _known.clear()


def _listeners(using: str) -> tuple[Subscription, ...]:
    found = _known.get(using)
    if found is not None and monotonic() < found[0]:
        return found[1]
    # Read the time before the query, because the query may miss later commits.
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
