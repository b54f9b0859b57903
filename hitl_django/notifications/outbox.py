"""The transactional outbox: messages to endpoints, written in the transaction of their event.

Whoever changes a run or a question calls ``publish``. Most projects have no endpoint: then it costs
one look at a tuple. Which endpoints there are is read again after LOOK_SECONDS, so that every
process knows of a change by then: an endpoint gets what happens from that long after it was made or
changed. Rows are all that is written here; ``webhooks`` sends them through their ``channels``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.ids import new_id
from hitl_django.models import Delivery, Interrupt, WebhookEndpoint
from hitl_django.task_queue import dispatcher

from . import channels

#: How long a process goes by what it has read of the endpoints.
LOOK_SECONDS = 5.0

_NEW = BulkInsert(
    Delivery, ["id", "endpoint_id", "event", "data", "state", "attempts", "fault"], fresh=True
)


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint as far as it takes to know which messages it gets."""

    id: UUID
    events: frozenset[str]
    graphs: frozenset[str]
    group: str
    is_personal: bool

    def wants(self, event: str, graph: str, group: str, is_for_somebody: bool) -> bool:
        """Says whether the endpoint gets this event of this graph, about a question of a group."""
        wanted = event in self.events and self.group in ("", group)
        if self.is_personal and not is_for_somebody:
            return False
        return wanted and (not self.graphs or graph in self.graphs)


#: The active endpoints of a database, and when they are to be read again.
_known: dict[str, tuple[float, tuple[Listener, ...]]] = {}


def publish(
    batch: WriteBatch,
    event: Delivery.Event,
    graph: str,
    *,
    group: Any = "",
    is_for_somebody: Any = True,
    **data: Any,
) -> None:
    """Adds a message to each endpoint that wants the event: ids, and no content.

    ``group`` is the name of the group that a question is for, and ``is_for_somebody`` whether it is
    for any or for a person: some endpoints choose by these.
    """
    listeners = _listeners(batch.using)
    if listeners:
        endpoints = [
            listener.id
            for listener in listeners
            if listener.wants(event, graph, group, is_for_somebody)
        ]
        add_messages(batch, event, {"graph": graph, **data}, endpoints)


def publish_about(
    batch: WriteBatch, event: Delivery.Event, question: Interrupt, **data: Any
) -> None:
    """Adds a message about a question to each endpoint that wants the event."""
    about = {"interrupt_id": question.pk, **data}
    publish(batch, event, question.graph, group=question.group_label, **about)


def add_messages(
    batch: WriteBatch, event: Delivery.Event, data: dict[str, Any], endpoints: Sequence[UUID]
) -> list[UUID]:
    """Adds a message to each of these endpoints, wanted or not; returns the messages' ids."""
    plain = {key: str(value) for key, value in data.items()}
    made = [new_id() for _ in endpoints]
    pending = str(Delivery.State.PENDING)
    rows = [
        [pk, endpoint, str(event), plain, pending, 0, ""]
        for pk, endpoint in zip(made, endpoints, strict=True)
    ]
    batch.insert(_NEW, rows)
    for endpoint in endpoints:
        dispatcher.enqueue_webhook(endpoint, batch)
    return made


def clear_listeners() -> None:
    """Clears what this process knows of the endpoints, because it has just changed one."""
    _known.clear()


def _listeners(using: str) -> tuple[Listener, ...]:
    found = _known.get(using)
    if found is not None and monotonic() < found[0]:
        return found[1]
    # Timed before the look: what is committed while it is taken may not be seen.
    until = monotonic() + LOOK_SECONDS
    rows = WebhookEndpoint.objects.using(using).filter(is_active=True)
    columns = ("pk", "channel", "events", "graphs", "group_label")
    listeners = tuple(
        Listener(
            row.pk,
            frozenset(row.events) or channel.events,
            frozenset(row.graphs),
            row.group_label,
            channel.is_personal,
        )
        for row in rows.values_list(*columns, named=True)
        if (channel := channels.find_channel(row.channel)) is not None
    )
    _known[using] = until, listeners
    return listeners
