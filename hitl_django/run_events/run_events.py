"""The events of one run, numbered by whoever holds its thread.

Every state of a run is changed under its thread's lock, or by the worker whose epoch the thread
has. So the one who writes knows the number of the last event, and no counter is locked for it: a
worker goes on from what its claim found, and the run keeps the number as of its last change of
state. After a worker that died in between, the rows themselves say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models import Max

from hitl_django.conf import hitl
from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.write_batch import WriteBatch
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent
from hitl_django.models.events import decode_modes, includes_subgraphs

from .message_events import describe_message
from .redaction import redact_value

if TYPE_CHECKING:
    from hitl_django.engine.types import Chunk

#: Adds events; a number that is taken is an IntegrityError, and with it nothing is written.
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
    """The data of an event as it is stored: redacted, and cut off where it is too large."""

    data: Any
    truncated: bool


class EventLog:
    """Adds events of a run to what is written of it; ``last`` is the number of the newest.

    ``attempt`` goes up with each worker that takes the run up. What models say is told with it: a
    node that is repeated says it again.
    """

    __slots__ = ("_attempt", "_known", "choice", "graph", "last", "run_id")

    def __init__(self, run_id: UUID, graph: str, choice: str, last: int, attempt: int = 0) -> None:
        self.run_id, self.graph, self.choice, self.last = run_id, graph, choice, last
        self._attempt = attempt
        #: What the run's row says, which is committed; its rows may have been deleted since.
        self._known = last

    @classmethod
    def for_run(cls, run: Run) -> EventLog:
        """Return the log of a run whose state nobody else can change any more."""
        return cls(run.pk, run.graph, run.events, run.last_event)

    @property
    def modes(self) -> frozenset[str]:
        """The stream modes whose chunks are events of the run."""
        return decode_modes(self.choice)

    @property
    def subgraphs(self) -> bool:
        """Whether the chunks of subgraphs are events as well."""
        return includes_subgraphs(self.choice)

    def catch_up(self, using: str) -> None:
        """Look up the last number.

        A worker that is gone may have added more than its run says; and where a commit has failed,
        what was counted for it may never have been written.
        """
        if self.choice:
            found = LAST.run(using, run=self.run_id)
            self.last = max(self._known, found[0][0] if found else 0)

    def append_state(self, batch: WriteBatch, state: str, **about: Any) -> int:
        """Add that the run comes to be in this state; returns the last number."""
        if self.choice:
            batch.insert(ADD, [self._row(str(state), "", about, False)])
        return self.last

    def append_chunks(self, batch: WriteBatch, chunks: Sequence[Chunk]) -> None:
        """Add the stream chunks that the engine emits with a commit."""
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
        """Return what is stored of the data of a chunk."""
        return RedactedEvent(
            *redact_value(data, int(hitl.EVENT_MAX_BYTES), registry.get_redacted_keys(self.graph))
        )

    def _row(self, kind: str, ns: str, data: Any, truncated: bool) -> tuple[Any, ...]:
        self.last += 1
        return self.run_id, self.last, kind, ns, data, truncated


def append_queued(batch: WriteBatch, run: Run, reason: str) -> int:
    """Add that a run goes on, and why; returns the number that its row keeps.

    The caller holds the thread's lock, and has read the run behind it.
    """
    return EventLog.for_run(run).append_state(batch, Run.State.QUEUED, reason=reason)


def append_event(batch: WriteBatch, run: Run, state: str, **about: Any) -> None:
    """Add that a run has come to be in this state; the caller holds the thread's lock.

    The number that the run's row keeps is updated at once: the caller's transaction is open.
    """
    if not run.events:
        return
    log = EventLog.for_run(run)
    log.catch_up(batch.using)
    run.last_event = log.append_state(batch, state, **about)
    Run.objects.using(batch.using).filter(pk=run.pk).update(last_event=run.last_event)
