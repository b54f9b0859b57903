"""Renewal of the leases of this process while their runs are under way.

One thread looks after all of them: it starts with the first and ends when there has been none for a
while, so that a run costs no thread of its own. A forked process begins without one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from time import monotonic

from django.db import connections

from hitl_django.conf import hitl

from .thread_lease import ThreadLease

logger = logging.getLogger("hitl_django")


class LeaseRenewal:
    """The renewal of a lease every HEARTBEAT_SECONDS, from when it is added to ``renewals``."""

    def __init__(self, lease: ThreadLease, log_fields: Mapping[str, str] = {}) -> None:
        self.lease, self.log_fields = lease, log_fields
        self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
        self.ended = False
        self.busy = threading.Lock()

    def next_due(self) -> float:
        """Return the time of the next call of ``renew_if_due``, by the monotonic clock."""
        return self.beat

    def renew_if_due(self) -> None:
        """Renew the lease if that is due, by the connection of the renewing OS thread."""
        if monotonic() < self.beat:
            return
        self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
        try:
            if not self.lease.renew():
                self.note_lost()
        except Exception:
            # A heartbeat that fails proves nothing. The next one may come through before the
            # lease has run out; if none does, another may take the thread, as it should, and the
            # run's next commit is refused.
            thread = self.lease.thread_id
            fields = {**self.log_fields, "thread_id": thread}
            logger.exception("thread %s: could not renew lease", thread, extra=fields)

    def note_lost(self) -> None:
        """Take note that the lease is released or lost; the run's next commit will be refused."""


class LeaseRenewer:
    """The thread that renews, and the leases that it renews."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all leases and the OS thread: a forked process has neither."""
        self._changed = threading.Condition(threading.Lock())
        self._leases: set[LeaseRenewal] = set()
        self._thread: threading.Thread | None = None
        self._wakes = 0.0

    def add(self, lease: LeaseRenewal) -> None:
        """Begin to renew a lease."""
        with self._changed:
            self._leases.add(lease)
            if self._thread is None:
                thread = threading.Thread(target=self._renew_all, name="hitl-leases", daemon=True)
                # Where no thread can be started now, the next lease tries again.
                thread.start()
                self._thread = thread
            elif lease.next_due() < self._wakes:
                self._changed.notify()

    def remove(self, lease: LeaseRenewal) -> None:
        """Stop renewing a lease; after the return it is not renewed again."""
        with self._changed:
            self._leases.discard(lease)
        with lease.busy:
            lease.ended = True

    def _renew_all(self) -> None:
        while (due := self._await_due()) is not None:
            for lease in due:
                with lease.busy:
                    if not lease.ended:
                        lease.renew_if_due()
            try:
                connections.close_all()  # this thread's own
            except Exception:
                # Who renews all the leases of this process must not end over a connection.
                logger.exception("leases: could not close a connection")

    def _await_due(self) -> list[LeaseRenewal] | None:
        """Wait for leases that are due; return None after a time without leases."""
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


renewals = LeaseRenewer()
os.register_at_fork(after_in_child=renewals.reset)
