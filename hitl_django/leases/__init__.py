"""Leases on threads: claim and renewal, the fence of commits, and how a run ends or pauses.

A claim raises the thread's epoch, and every later write of the worker is bound to that epoch, in
the same transaction. The lease only decides when another worker may claim: safety is the epoch's
part, liveness the lease's. Leases are on the database's clock, the one that all workers share.
"""

from __future__ import annotations

from .acquire import claim, renew
from .fence import RunFence
from .lease import Lease
from .renewal import keep_renewed
from .thread_lock import lock_thread
from .transitions import describe_error, note_error, park, release
from .waiting_runs import enqueue_next, select_waiting

__all__ = [
    "Lease",
    "RunFence",
    "claim",
    "describe_error",
    "enqueue_next",
    "keep_renewed",
    "lock_thread",
    "note_error",
    "park",
    "release",
    "renew",
    "select_waiting",
]
