"""A worker's run under way: its lease is renewed meanwhile, and its time slice ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from hitl_django.db.renewal import RenewedLease, renewals
from hitl_django.engine.task.runtime import RunControl

from . import acquire
from .lease import Lease

logger = logging.getLogger("hitl_django")


@contextmanager
def keep_renewed(lease: Lease, control: RunControl, slice_: float | None) -> Iterator[None]:
    """Renews the lease meanwhile, and requests a drain when ``slice_`` seconds are used up."""
    run = _RenewedRun(lease, control, slice_)
    try:
        renewals.add(run)
        yield
    finally:
        renewals.remove(run)


class _RenewedRun(RenewedLease):
    """A run under way, and when its lease is to be renewed or its time slice ends."""

    def __init__(self, lease: Lease, control: RunControl, slice_: float | None) -> None:
        super().__init__()
        self.lease, self.control = lease, control
        self.slice_ends = float("inf") if slice_ is None else monotonic() + slice_

    def next_due(self) -> float:
        return min(self.beat, self.slice_ends)

    def keep_up(self) -> None:
        if monotonic() >= self.slice_ends:
            self.control.request_drain("time slice used up")
            self.slice_ends = float("inf")
        super().keep_up()

    def renew(self) -> None:
        try:
            if not acquire.renew(self.lease):
                # Its next commit will be refused anyway; no need to begin another super-step.
                self.control.request_drain("lease lost")
        except Exception:
            # A heartbeat that fails proves nothing. The next one may come through before the
            # lease has run out; if none does, another worker takes over, as it should.
            fields = self.lease.log_fields()
            logger.exception("run %s: lease not renewed", self.lease.run_id, extra=fields)
