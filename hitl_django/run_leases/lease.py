"""The lease of a run: the lease on its thread, and the run's data for its worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hitl_django.checkpoints.queries import CheckpointRow
from hitl_django.leases import ThreadLease
from hitl_django.run_events import EventLog


class StoredRun:
    """The checkpoint of a run that a worker starts, read when the lease is taken.

    ``newest`` are the rows of the thread's newest checkpoint. ``has_waiting`` is true if the run
    has pending interrupts. The data remains valid during the lease, because only the process with
    the lease adds checkpoints and interrupts.
    """

    __slots__ = ("has_waiting", "newest")

    def __init__(self, rows: Sequence[Any]) -> None:
        self.newest: list[CheckpointRow] = [row for row in rows if row.data is not None]
        self.has_waiting = len(self.newest) < len(rows)


@dataclass(frozen=True, slots=True)
class RunLease:
    """A worker's lease on a thread for one of the thread's runs.

    Attributes:
        attempt: the number of times that a worker has started the run without progress.
        log: adds the events of the run.
        has_interrupts: whether the thread has ever had an interrupt. Only the process with the
            lease adds interrupts, so False remains valid.
        graph_version: the graph's version at the start of the run.
        fingerprint: the fingerprint of the graph structure at the last commit of the run.
        stored: the data that was read when the lease was taken, or None.
        names: the run's idempotency key and the id of the thread's related object, for the search
            text of its interrupts.
        options: the run's options.
        last_error: the error that ended the previous attempt, or an empty string.
    """

    run_id: UUID
    graph: str
    thread: ThreadLease
    attempt: int
    log: EventLog
    has_interrupts: bool = True
    graph_version: str = ""
    fingerprint: str = ""
    stored: StoredRun | None = None
    names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    last_error: str = ""

    def log_fields(self) -> dict[str, str]:
        """Return the fields of a log record about the run, which contain ids but no values."""
        ids = {"run_id": str(self.run_id), "thread_id": self.thread.thread_id}
        return {**ids, "graph": self.graph}
