"""Leases on threads, taken by workers and by direct graph calls.

Taking a lease increments the thread's epoch. Every later write checks the epoch in its own
transaction, so a process that has lost its lease can't write to the thread. The expiry of a lease
only determines when another process may take the thread. Leases use the database's clock, which all
processes share.
"""

from __future__ import annotations

from .thread_lease import ThreadKey, ThreadLease
from .thread_rows import lock_thread

__all__ = ["ThreadKey", "ThreadLease", "lock_thread"]
