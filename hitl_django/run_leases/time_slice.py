"""Renewal of a run's lease, and the end of the run's time slice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from hitl_django.engine.task.runtime import RunControl
from hitl_django.leases.renewal import LeaseRenewal, renewals

from .lease import RunLease


@contextmanager
def keep_renewed(lease: RunLease, control: RunControl, slice_: float | None) -> Iterator[None]:
    """Renew the lease inside the ``with`` block.

    After ``slice_`` seconds, ask the run to stop before its next super-step.
    """
    run = RunRenewal(lease, control, slice_)
    try:
        renewals.add(run)
        yield
    finally:
        renewals.remove(run)


class RunRenewal(LeaseRenewal):
    """The renewal of a run's lease, which also stops the run at the end of its time slice."""

    def __init__(self, lease: RunLease, control: RunControl, slice_: float | None) -> None:
        super().__init__(lease.thread, lease.log_fields())
        self.control = control
        self.slice_ends = float("inf") if slice_ is None else monotonic() + slice_

    def next_due(self) -> float:
        return min(self.beat, self.slice_ends)

    def renew_if_due(self) -> None:
        if monotonic() >= self.slice_ends:
            self.control.request_drain("time slice used up")
            self.slice_ends = float("inf")
        super().renew_if_due()

    def note_lost(self) -> None:
        # The run's next commit will be rejected, so no further super-step should start.
        self.control.request_drain("lease lost")
