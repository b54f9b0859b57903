"""Who drives a thread: claims, leases, and how a run is left.

A claim raises the thread's epoch and every later write of the worker is bound to that epoch, in
the same transaction. The lease only says when somebody else may claim: safety is the epoch's
part, liveness the lease's. Leases are on the database's clock, the one that all workers share.
"""

from __future__ import annotations

from .claims import RunFence, claim, renew
from .lease import Lease
from .lock import lock_thread
from .outcomes import abandon, park
from .watch import watched

__all__ = ["Lease", "RunFence", "abandon", "claim", "lock_thread", "park", "renew", "watched"]
