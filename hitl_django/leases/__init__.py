"""Leases on threads: taken, fenced, renewed and released by workers and direct calls.

Taking a lease increments the thread's epoch, and every later write checks that epoch in its own
transaction. The epoch prevents writes of a process that has lost the lease. The lease only limits
when another process may take the thread. Leases use the database's clock, which all processes
share.
"""

from __future__ import annotations

from .thread_lease import ThreadKey, ThreadLease
from .thread_rows import lock_thread

__all__ = ["ThreadKey", "ThreadLease", "lock_thread"]
