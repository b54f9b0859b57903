"""The lease: a worker's hold on a thread while it advances one of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from hitl_django.checkpoints import ThreadKey
from hitl_django.conf import hitl
from hitl_django.db.write_batch import Prefetch
from hitl_django.notifications import EventLog


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's hold on a thread, for one run.

    ``attempt`` counts claims without progress. ``fingerprint`` names the shape of the graph that
    the run was stored under. ``has_asked`` is whether the thread has ever had an interrupt: only
    the holder of a lease adds one, so without it there is none to find. ``log`` takes the events of
    the run. ``newest`` and ``waiting`` are what was read with the claim, where anything was: the
    rows of the thread's newest checkpoint, and the interrupts of the run that wait for an answer.
    """

    run_id: UUID
    graph: str
    thread: ThreadKey
    attempt: int
    log: EventLog
    has_asked: bool = True
    fingerprint: str = ""
    newest: Prefetch | None = None
    waiting: Prefetch | None = None

    def fence_values(self) -> dict[str, Any]:
        """Returns the values of a statement that finds the thread only while the lease holds."""
        return {"thread": self.thread.pk, "epoch": self.thread.epoch}


def lease_duration() -> timedelta:
    """Returns how long a claim or a renewal leases a thread."""
    return timedelta(seconds=hitl.LEASE_SECONDS)
