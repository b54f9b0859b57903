"""Renewal of the leases of this process while their runs are under way.

One thread looks after all of them: it starts with the first and ends when there has been none for a
while, so that a run costs no thread of its own. A forked process begins without one.
"""

from __future__ import annotations

import logging
import os
import threading
from time import monotonic

from django.db import connections

from hitl_django.conf import hitl

logger = logging.getLogger("hitl_django")


class RenewedLease:
    """A lease under renewal: every HEARTBEAT_SECONDS, from when it is added to ``renewals``."""

    def __init__(self) -> None:
        self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
        self.ended = False
        self.busy = threading.Lock()

    def renew(self) -> None:
        """Extends the lease, by the connection of the renewals' own thread."""
        raise NotImplementedError

    def next_due(self) -> float:
        """Returns when ``keep_up`` has something to do next, by the monotonic clock."""
        return self.beat

    def keep_up(self) -> None:
        """Does what is due."""
        if monotonic() >= self.beat:
            self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
            self.renew()


class Renewals:
    """The thread that renews, and the leases that it renews."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all leases, and the thread: both stay behind where a process is forked."""
        self._changed = threading.Condition(threading.Lock())
        self._leases: set[RenewedLease] = set()
        self._thread: threading.Thread | None = None
        self._wakes = 0.0

    def add(self, lease: RenewedLease) -> None:
        """Renews a lease from now on."""
        with self._changed:
            self._leases.add(lease)
            if self._thread is None:
                thread = threading.Thread(target=self._renew_all, name="hitl-leases", daemon=True)
                # Where no thread can be started now, the next lease tries again.
                thread.start()
                self._thread = thread
            elif lease.next_due() < self._wakes:
                self._changed.notify()

    def remove(self, lease: RenewedLease) -> None:
        """Forgets a lease; when this returns, nothing more is done for it."""
        with self._changed:
            self._leases.discard(lease)
        with lease.busy:
            lease.ended = True

    def _renew_all(self) -> None:
        while (due := self._await_due()) is not None:
            for lease in due:
                with lease.busy:
                    if not lease.ended:
                        lease.keep_up()
            try:
                connections.close_all()  # this thread's own
            except Exception:
                # Who renews all the leases of this process must not end over a connection.
                logger.exception("leases: a connection was not closed")

    def _await_due(self) -> list[RenewedLease] | None:
        """Waits for the next leases that are due; None when there was none for a while."""
        with self._changed:
            while True:
                now = monotonic()
                due = [lease for lease in self._leases if lease.next_due() <= now]
                if due:
                    return due
                idle = not self._leases
                self._wakes = min(
                    (lease.next_due() for lease in self._leases),
                    default=now + hitl.HEARTBEAT_SECONDS,
                )
                self._changed.wait(self._wakes - now)
                if idle and not self._leases and monotonic() >= self._wakes:
                    self._thread = None
                    return None


renewals = Renewals()
os.register_at_fork(after_in_child=renewals.reset)
