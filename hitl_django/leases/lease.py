"""What a worker holds while it drives a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitl_django.checkpoints import ThreadKey
from hitl_django.db.write_batch import Prefetch
from hitl_django.notifications import EventLog


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's hold on a thread, for one run.

    ``attempt`` counts claims without progress. ``fingerprint`` names the shape of the graph that
    the run was stored under. ``asked`` tells whether the thread has ever asked
    a person anything: only who holds a lease asks, so without it there is no question to find.
    ``log`` takes what the run tells. ``newest`` and ``waiting`` are what was read with the claim,
    where anything was: the rows of the thread's newest checkpoint, and the questions of the run
    that nobody has answered.
    """

    run_id: UUID
    graph: str
    thread: ThreadKey
    attempt: int
    log: EventLog
    asked: bool = True
    fingerprint: str = ""
    newest: Prefetch | None = None
    waiting: Prefetch | None = None

    def ours(self) -> dict[str, Any]:
        """Returns the values of a statement that finds the thread only while it is ours."""
        return {"thread": self.thread.pk, "epoch": self.thread.epoch}
