"""Who drives a thread: claims, leases, and how a run is left.

A claim raises the thread's epoch and every later write of the worker is bound to that epoch, in
the same transaction. The lease only says when somebody else may claim: safety is the epoch's
part, liveness the lease's. Leases are on the database's clock, the one that all workers share.
"""

from __future__ import annotations

from .acquire import RunFence, claim, renew
from .lease import Lease
from .renewal import watched
from .thread_lock import lock_thread
from .transitions import park, release

__all__ = ["Lease", "RunFence", "claim", "lock_thread", "park", "release", "renew", "watched"]
