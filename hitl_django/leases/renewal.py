"""Renewal of the leases of this process while its runs are under way.

One thread looks after all of them: it starts with the first run and ends when there has been none
for a while, so that a run costs no thread of its own. A forked process begins without one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from django.db import connections

from hitl_django.conf import hitl
from hitl_django.engine.task.runtime import RunControl

from . import acquire
from .lease import Lease

logger = logging.getLogger("hitl_django")


@contextmanager
def keep_renewed(lease: Lease, control: RunControl, slice_: float | None) -> Iterator[None]:
    """Renews the lease meanwhile, and requests a drain when ``slice_`` seconds are used up."""
    run = _RenewedRun(lease, control, slice_)
    try:
        _renewals.add(run)
        yield
    finally:
        _renewals.remove(run)


class _RenewedRun:
    """A run under way, and when its lease is to be renewed or its time slice ends."""

    def __init__(self, lease: Lease, control: RunControl, slice_: float | None) -> None:
        self.lease, self.control = lease, control
        now = monotonic()
        self.slice_ends = float("inf") if slice_ is None else now + slice_
        self.beat = now + hitl.HEARTBEAT_SECONDS
        self.ended = False
        self.busy = threading.Lock()

    def next_due(self) -> float:
        return min(self.beat, self.slice_ends)

    def keep_up(self) -> None:
        with self.busy:
            if self.ended:
                return
            if monotonic() >= self.slice_ends:
                self.control.request_drain("time slice used up")
                self.slice_ends = float("inf")
            if monotonic() >= self.beat:
                self.beat = monotonic() + hitl.HEARTBEAT_SECONDS
                self._renew()

    def _renew(self) -> None:
        try:
            if not acquire.renew(self.lease):
                # Its next commit will be refused anyway; no need to begin another super-step.
                self.control.request_drain("lease lost")
        except Exception:
            # A heartbeat that fails proves nothing. The next one may come through before the
            # lease has run out; if none does, another worker takes over, as it should.
            logger.exception("run %s: lease not renewed", self.lease.run_id)


class _Renewals:
    """The thread that renews, and the runs it renews the leases of."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._runs: set[_RenewedRun] = set()
        self._thread: threading.Thread | None = None
        self._wakes = 0.0

    def add(self, run: _RenewedRun) -> None:
        with self._changed:
            self._runs.add(run)
            if self._thread is None:
                thread = threading.Thread(target=self._renew_all, name="hitl-leases", daemon=True)
                # Where no thread can be started now, the next run tries again.
                thread.start()
                self._thread = thread
            elif run.next_due() < self._wakes:
                self._changed.notify()

    def remove(self, run: _RenewedRun) -> None:
        """Forgets a run; when this returns, nothing more is done for it."""
        with self._changed:
            self._runs.discard(run)
        with run.busy:
            run.ended = True

    def _renew_all(self) -> None:
        while (due := self._await_due()) is not None:
            for run in due:
                run.keep_up()
            try:
                connections.close_all()  # this thread's own
            except Exception:
                # Who renews all the leases of this process must not end over a connection.
                logger.exception("leases: a connection was not closed")

    def _await_due(self) -> list[_RenewedRun] | None:
        """Waits for the next runs that are due; None when there has been no run for a while."""
        with self._changed:
            while True:
                now = monotonic()
                due = [run for run in self._runs if run.next_due() <= now]
                if due:
                    return due
                idle = not self._runs
                self._wakes = min(
                    (run.next_due() for run in self._runs), default=now + hitl.HEARTBEAT_SECONDS
                )
                self._changed.wait(self._wakes - now)
                if idle and not self._runs and monotonic() >= self._wakes:
                    self._thread = None
                    return None


_renewals = _Renewals()


def _reset_after_fork() -> None:
    # The thread and whatever it held stayed behind in the process that was forked.
    global _renewals
    _renewals = _Renewals()


os.register_at_fork(after_in_child=_reset_after_fork)
