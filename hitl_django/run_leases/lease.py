"""The lease of a run: the lease on its thread, and the data about the run that its worker needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hitl_django.checkpoints.queries import CheckpointRow
from hitl_django.leases import ThreadLease
from hitl_django.run_events import EventLog


class StoredRun:
    """The newest checkpoint of a run's thread, read when a worker takes the lease.

    ``newest`` are the rows of the checkpoint. ``has_waiting`` is true if the run has pending
    interrupts. Both remain valid during the lease, because only the process with the lease adds
    checkpoints and interrupts.
    """

    __slots__ = ("has_waiting", "newest")

    def __init__(self, rows: Sequence[Any]) -> None:
        self.newest: list[CheckpointRow] = [row for row in rows if row.data is not None]
        self.has_waiting = len(self.newest) < len(rows)


@dataclass(frozen=True, slots=True)
class RunLease:
    """A worker's lease on a thread for one of the thread's runs.

    Attributes:
        attempt: the number of times that workers have claimed the run since its last progress,
            including this time.
        log: the event log of the run.
        has_interrupts: whether the thread has ever had an interrupt. Only the process with the
            lease adds interrupts, so False remains valid.
        graph_version: the graph's version at the start of the run.
        fingerprint: the fingerprint of the graph structure at the last commit of the run.
        stored: the newest checkpoint, read when the lease was taken, or None if it must be read
            again.
        names: the run's idempotency key and the id of the thread's related object, for the search
            text of the run's interrupts.
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
        """Return the extra fields of log records about the run.

        The fields contain ids, but no payloads.
        """
        ids = {"run_id": str(self.run_id), "thread_id": self.thread.thread_id}
        return {**ids, "graph": self.graph}
