"""What a worker holds while it drives a run."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from hitl_django.saver import ThreadKey


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's hold on a thread, for one run; ``attempt`` counts claims without progress."""

    run_id: UUID
    graph: str
    thread: ThreadKey
    attempt: int
