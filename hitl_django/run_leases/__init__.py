"""Leases of runs: taking a lease, rejecting commits without a valid lease, state transitions."""

from __future__ import annotations

from .claim import claim, claim_next
from .ended_workers import release_ended_workers
from .fence import RunFence
from .lease import RunLease
from .time_slice import keep_renewed
from .transitions import describe_error, note_error, park, release
from .waiting_runs import enqueue_next, select_waiting

__all__ = [
    "RunFence",
    "RunLease",
    "claim",
    "claim_next",
    "describe_error",
    "enqueue_next",
    "keep_renewed",
    "note_error",
    "park",
    "release",
    "release_ended_workers",
    "select_waiting",
]
