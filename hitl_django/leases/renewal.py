"""Renewal of this process's leases during their runs.

A single OS thread renews all leases. The OS thread starts with the first lease and ends after some
time without leases. A forked process starts without this OS thread.
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
    """The regular renewal of one lease.

    After the object is added to ``renewals``, the lease is renewed every HEARTBEAT_SECONDS, until
    the object is removed.
    """

    def __init__(self, lease: ThreadLease, log_fields: Mapping[str, str] = {}) -> None:
        self.lease, self.log_fields = lease, log_fields
        self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
        self.ended = False
        self.busy = threading.Lock()

    def next_due(self) -> float:
        """Return the time of the next call of ``renew_if_due``, on the monotonic clock."""
        return self.beat

    def renew_if_due(self) -> None:
        """Renew the lease if the renewal is due, and call ``note_lost`` if the lease is lost.

        Errors are logged.
        """
        if monotonic() < self.beat:
            return
        self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
        try:
            if not self.lease.renew():
                self.note_lost()
        except Exception:
            # A failed renewal isn't final: the next renewal may succeed before the lease expires.
            # If no renewal succeeds, another process may take the thread, and the run's next commit
            # is rejected.
            thread = self.lease.thread_id
            fields = {**self.log_fields, "thread_id": thread}
            logger.exception("thread %s: could not renew lease", thread, extra=fields)

    def note_lost(self) -> None:
        """Do nothing. Override this method to stop work after the lease was lost or released.

        In both cases, the next commit of the run is rejected.
        """


class LeaseRenewer:
    """The OS thread that renews leases, and the leases to renew."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """In a forked process, discard the leases and the OS thread of the parent process."""
        self._changed = threading.Condition(threading.Lock())
        self._leases: set[LeaseRenewal] = set()
        self._thread: threading.Thread | None = None
        self._wakes = 0.0

    def add(self, lease: LeaseRenewal) -> None:
        with self._changed:
            self._leases.add(lease)
            if self._thread is None:
                thread = threading.Thread(target=self._renew_all, name="hitl-leases", daemon=True)
                # If the OS thread can't be started now, the next added lease tries again.
                thread.start()
                self._thread = thread
            elif lease.next_due() < self._wakes:
                self._changed.notify()

    def remove(self, lease: LeaseRenewal) -> None:
        """Stop renewing a lease.

        The lease isn't renewed after this method returns.
        """
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
                connections.close_all()  # This closes the connections of this OS thread.
            except Exception:
                # A connection error must not end the renewal of all leases.
                logger.exception("leases: could not close a connection")

    def _await_due(self) -> list[LeaseRenewal] | None:
        """Wait until renewals are due, and return them.

        Return None after some time without leases: the OS thread then ends.
        """
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
