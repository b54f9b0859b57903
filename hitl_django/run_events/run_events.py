"""Events of a run with consecutive numbers.

A process stores events only with the lock or the lease of the thread. No other process can store
events of the run at the same time, so the numbers need no shared counter. A worker continues from
the number in the run's row, which it reads when it takes the lease. The row is updated when the
state of the run changes. If a worker has died since the last update, the number is read from the
stored events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models import Max

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.write_batch import WriteBatch
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent
from hitl_django.models.events import decode_modes, encode_kinds, includes_subgraphs

from .message_events import describe_message
from .redaction import redact_value

if TYPE_CHECKING:
    from hitl_django.engine.types import Chunk

#: Inserts events. If a number already exists, IntegrityError is raised and nothing is written.
ADD = BulkInsert(RunEvent, ["run", "seq", "kind", "ns", "data", "truncated"], fresh=True)

#: Finds the number of a run's last event.
LAST = PreparedSelect(
    lambda: (
        RunEvent.objects.order_by()
        .filter(run=Parameter("run", models.UUIDField()))
        .values("run")
        .annotate(last=Max("seq"))
        .values_list("last")
    )
)


class RedactedEvent(NamedTuple):
    """The data of an event in its stored form: redacted, and truncated if it is too large."""

    data: Any
    truncated: bool


class EventLog:
    """Builder of a run's events. ``last`` is the number of the newest event.

    ``attempt`` increases each time a worker starts the run. The attempt is stored with the output
    of models, because a node that runs again generates the output again.
    """

    __slots__ = ("_attempt", "_known", "choice", "graph", "last", "run_id")

    def __init__(self, run_id: UUID, graph: str, choice: str, last: int, attempt: int = 0) -> None:
        self.run_id, self.graph, self.choice, self.last = run_id, graph, choice, last
        self._attempt = attempt
        #: The committed number in the run's row. The events themselves may have been deleted.
        self._known = last

    @classmethod
    def for_run(cls, run: Run) -> EventLog:
        """Return the event log of a run whose thread is locked."""
        return cls(run.pk, run.graph, run.events, run.last_event)

    @property
    def modes(self) -> frozenset[str]:
        """The stream modes whose chunks are stored as events of the run."""
        return decode_modes(self.choice)

    @property
    def subgraphs(self) -> bool:
        """Whether the stream chunks of subgraphs are also stored."""
        return includes_subgraphs(self.choice)

    def catch_up(self, using: str) -> None:
        """Read the number of the last event from the stored events.

        This corrects ``last`` in two cases. If a worker has died, events with higher numbers than
        the number in the run's row may be stored. If a commit has failed, events that ``last``
        counts may be missing in the database.
        """
        if self.choice:
            found = LAST.run(using, run=self.run_id)
            self.last = max(self._known, found[0][0] if found else 0)

    def append_state(self, batch: WriteBatch, state: str, **about: Any) -> int:
        """Add an event for the run's new state to the batch, with the data ``about``.

        Return the number of the last event.
        """
        if self.choice:
            batch.insert(ADD, [self._row(str(state), "", about, False)])
        return self.last

    def append_chunks(self, batch: WriteBatch, chunks: Sequence[Chunk]) -> None:
        """Add the stream chunks of a commit to the batch, as events."""
        rows = []
        for ns, mode, data in chunks:
            if mode in self.modes:
                kept = data if isinstance(data, RedactedEvent) else self.redact(data)
                shown = kept.data
                if mode == "messages":
                    shown = describe_message(shown, self._attempt)
                rows.append(self._row(mode, "|".join(ns), shown, kept.truncated))
        batch.insert(ADD, rows)

    def redact(self, data: Any) -> RedactedEvent:
        """Return the data of a stream chunk in its stored form."""
        return RedactedEvent(
            *redact_value(data, int(hitl.EVENT_MAX_BYTES), registry.get_redacted_keys(self.graph))
        )

    def _row(self, kind: str, ns: str, data: Any, truncated: bool) -> tuple[Any, ...]:
        self.last += 1
        return self.run_id, self.last, kind, ns, data, truncated


def store_also(run: Run, kinds: Iterable[str]) -> None:
    """Let a run store further kinds of events. The caller must have locked the thread."""
    choice = encode_kinds({*filter(None, run.events.split(",")), *kinds})
    if choice != run.events:
        run.events = choice
        Run.objects.using(write_alias()).filter(pk=run.pk).update(events=choice)


def append_queued(batch: WriteBatch, run: Run, reason: str) -> int:
    """Add the event that a run is queued, with the reason.

    Return the event's number, which the caller stores in the run's row. The caller must have locked
    the thread before reading the run. A caller without the lock must instead add a statement to the
    batch that fails if the thread has changed since.
    """
    return EventLog.for_run(run).append_state(batch, Run.State.QUEUED, reason=reason)


def append_event(batch: WriteBatch, run: Run, state: str, **about: Any) -> None:
    """Add an event for a state of the run to the batch. The caller must have locked the thread.

    ``about`` is the data of the event. The column ``last_event`` of the run is updated immediately,
    in the caller's transaction.
    """
    if not run.events:
        return
    log = EventLog.for_run(run)
    log.catch_up(batch.using)
    run.last_event = log.append_state(batch, state, **about)
    Run.objects.using(batch.using).filter(pk=run.pk).update(last_event=run.last_event)
