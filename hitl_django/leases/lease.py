"""What a worker holds while it drives a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitl_django.events import Log
from hitl_django.saver import ThreadKey


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's hold on a thread, for one run.

    ``attempt`` counts claims without progress. ``fingerprint`` names the shape of the graph that
    the run was stored under. ``asked`` tells whether the thread has ever asked
    a person anything: only who holds a lease asks, so without it there is no question to find.
    ``log`` takes what the run tells.
    """

    run_id: UUID
    graph: str
    thread: ThreadKey
    attempt: int
    log: Log
    asked: bool = True
    fingerprint: str = ""

    def ours(self) -> dict[str, Any]:
        """Returns the values of a statement that finds the thread only while it is ours."""
        return {"thread": self.thread.pk, "epoch": self.thread.epoch}
