"""The lease on a thread: taken, fenced, renewed and released, by a worker or by a direct call.

Taking a lease raises the thread's epoch, and every later write is bound to that epoch, in the same
transaction. The lease only limits when another may take the thread: the epoch provides safety, the
lease liveness. Leases are on the database's clock, which all processes share.
"""

from __future__ import annotations

from .thread_lease import ThreadKey, ThreadLease
from .thread_rows import lock_thread

__all__ = ["ThreadKey", "ThreadLease", "lock_thread"]
