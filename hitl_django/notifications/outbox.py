"""What others are to be told, written in the transaction of what it tells of.

Whoever changes a run or a question calls ``tell``. Most projects tell nobody: then it costs one
look at a tuple. Which endpoints there are is read again after LOOK_SECONDS, so that every process
knows of a change by then: an endpoint hears of what happens from that long after it was made or
changed. Rows are all that is written here; ``webhooks`` sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.ids import new_id
from hitl_django.models import Delivery, WebhookEndpoint
from hitl_django.task_queue import dispatcher

#: How long a process goes by what it has read of the endpoints.
LOOK_SECONDS = 5.0

_NEW = BulkInsert(
    Delivery, ["id", "endpoint_id", "event", "data", "state", "attempts", "fault"], fresh=True
)


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint as far as it takes to know what it is told."""

    id: UUID
    events: frozenset[str]
    graphs: frozenset[str]

    def hears(self, event: str, graph: str) -> bool:
        wanted = not self.events or event in self.events
        return wanted and (not self.graphs or graph in self.graphs)


#: The active endpoints of a database, and when they are to be read again.
_known: dict[str, tuple[float, tuple[Listener, ...]]] = {}


def publish(batch: WriteBatch, event: Delivery.Event, graph: str, **data: Any) -> None:
    """Adds to what is written what the endpoints are to hear of it: ids, and nothing said."""
    listeners = _listeners(batch.using)
    if listeners:
        told = [listener.id for listener in listeners if listener.hears(event, graph)]
        add(batch, event, {"graph": graph, **data}, told)


def add(
    batch: WriteBatch, event: Delivery.Event, data: dict[str, Any], told: Sequence[UUID]
) -> list[UUID]:
    """Adds a message to each of these endpoints, whatever they want to hear; returns their ids."""
    plain = {key: str(value) for key, value in data.items()}
    made = [new_id() for _ in told]
    pending = str(Delivery.State.PENDING)
    rows = [
        [pk, endpoint, str(event), plain, pending, 0, ""]
        for pk, endpoint in zip(made, told, strict=True)
    ]
    batch.insert(_NEW, rows)
    batch.after_write(partial(_hint, told))
    return made


def forget() -> None:
    """Has this process look at the endpoints anew, because it has just changed one."""
    _known.clear()


def _hint(endpoints: Sequence[UUID]) -> None:
    for endpoint in endpoints:
        dispatcher.enqueue_webhook(endpoint)


def _listeners(using: str) -> tuple[Listener, ...]:
    found = _known.get(using)
    if found is not None and monotonic() < found[0]:
        return found[1]
    # Timed before the look: what is committed while it is taken may not be seen.
    until = monotonic() + LOOK_SECONDS
    rows = WebhookEndpoint.objects.using(using).filter(is_active=True)
    listeners = tuple(
        Listener(pk, frozenset(events), frozenset(graphs))
        for pk, events, graphs in rows.values_list("pk", "events", "graphs")
    )
    _known[using] = until, listeners
    return listeners
