"""The lease of a run: the thread's, and the facts that its worker executes the run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hitl_django.checkpoints.queries import CheckpointRow
from hitl_django.leases import ThreadLease
from hitl_django.run_events import EventLog


class StoredRun:
    """What a claimed run goes on from, as it was read with its claim.

    ``newest`` are the rows of the thread's newest checkpoint, and ``has_waiting`` is whether
    interrupts of the run wait for an answer. Only the holder of the lease adds either.
    """

    __slots__ = ("has_waiting", "newest")

    def __init__(self, rows: Sequence[Any]) -> None:
        self.newest: list[CheckpointRow] = [row for row in rows if row.data is not None]
        self.has_waiting = len(self.newest) < len(rows)


@dataclass(frozen=True, slots=True)
class RunLease:
    """A worker's lease on a thread, for one of its runs.

    ``attempt`` counts claims without progress. ``graph_version`` is what the run began with,
    ``fingerprint`` names the shape of the graph that it was stored under. ``has_interrupts`` is
    whether the thread has ever had an interrupt: only the holder of a lease adds one, so without
    it there is none to find. ``log`` takes the events of the run, ``stored`` is what was read with
    the claim, where anything was. ``names`` are the run's key and the id of the thread's subject,
    where they have any: what it asks is found by them. ``options`` is what the run was started with
    besides its input. ``last_error`` is why the run was left at its last claim, if that was an
    error.
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
        """Return the fields of a log record about the run: ids, and never what it works on."""
        ids = {"run_id": str(self.run_id), "thread_id": self.thread.thread_id}
        return {**ids, "graph": self.graph}
