"""The lease that a direct call of a graph takes on its thread, as a worker does for its run.

The lease is taken with the first commit of the run, or before its first tasks; every later commit
is bound to the epoch that it began, as a worker's is.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import DatabaseError, IntegrityError, connections

from hitl_django.conf import hitl
from hitl_django.db.renewal import RenewedLease, renewals
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.savers.thread_lease import LocalThreadLease, LocalThreadLeases, Stream
from hitl_django.errors import LeaseHeldError, LeaseLostError
from hitl_django.models import Thread

from . import lease_queries, thread_rows

logger = logging.getLogger("hitl_django")


class DirectCallLease(LocalThreadLease):
    """A run's lease on its thread, in this process and in the database ``using``.

    ``pk`` is the thread's key, None while it has no row; ``epoch`` is the one that the lease
    begins, or has begun.
    """

    __slots__ = ("_left", "_renewed", "epoch", "in_force", "owner", "pk", "using")

    def __init__(
        self, using: str, leases: LocalThreadLeases[Any], thread_id: str, stream: Stream
    ) -> None:
        super().__init__(leases, thread_id, stream)
        self.using, self.owner, self._left = using, "", ""
        self.pk: int | None = None
        self.epoch = 1
        self.in_force = False
        self._renewed: _DirectCallRenewal | None = None

    def take_over(self, left: DirectCallLease) -> None:
        """Takes the thread, and its lease, from a run that was left half-way."""
        super().take_over(left)
        left.stop_renewal()
        self._left = left.owner

    def check(self) -> None:
        """Finds the thread's row; raises LeaseHeldError where somebody else has the lease."""
        row = thread_rows.find_thread(self.using, self.thread_id)
        if row is None:
            return
        if row.is_leased and row.lease_owner != self._left:
            raise self._refuse(f"{row.lease_owner} has it")
        self.pk, self.epoch = row.pk, row.epoch + 1

    def enforce(self) -> None:
        """Takes the lease; raises LeaseHeldError where somebody else has been faster."""
        if self.pk is None:
            self.begin_thread(_add_nothing, ends=False)
        else:
            batch = WriteBatch(self.using)
            self.guard(batch, ends=False)
            batch.commit()
        self.note(ends=False)

    def begin_thread(self, add_rows: Callable[[int, WriteBatch], None], *, ends: bool) -> None:
        """Writes the thread's row and its first rows; leased, unless the run ``ends`` with them."""
        owner, leased_for = ("", None) if ends else (self._name_owner(), _duration())
        row = Thread(thread_id=self.thread_id, epoch=self.epoch, lease_owner=owner)
        self.in_force = False
        self.stop_renewal()
        try:
            self.pk = thread_rows.begin_thread(self.using, row, add_rows, leased_for)
        except IntegrityError as error:
            raise self._refuse("another run has begun it meanwhile") from error

    def guard(self, batch: WriteBatch, *, ends: bool, is_late: bool = False) -> None:
        """Requires that the thread is this run's; where the run ``ends`` it is given back.

        ``is_late`` says that the lease may have run out: it is extended then, so that who has read
        the thread meanwhile, to take it, is refused.
        """
        # Zero rows: somebody else has taken the thread since, or deleted it.
        key = {"thread": self.pk, "epoch": self.epoch}
        if not self.in_force:
            taken = {
                "epoch": self.epoch - 1,
                "left": self._left,
                "owner": "" if ends else self._name_owner(),
                "duration": None if ends else _duration(),
            }
            refusal = self._refuse("another run has taken it meanwhile")
            batch.guard(lease_queries.TAKE, {**key, **taken}, refusal)
        elif ends:
            batch.guard(lease_queries.LET_GO, key, LeaseLostError)
        elif is_late:
            batch.guard(lease_queries.RENEW, {**key, "duration": _duration()}, LeaseLostError)
        else:
            batch.lock(lease_queries.CHECK_IN_TIME, key, LeaseLostError)

    def note(self, *, ends: bool) -> None:
        """Notes that a commit with the guard is written."""
        if ends:
            self.in_force = False
            self.stop_renewal()
        elif not self.in_force:
            self.in_force = True
            # Within a caller's transaction nobody else sees the lease: they wait for the row.
            if not connections[self.using].in_atomic_block:
                self._renewed = _DirectCallRenewal(self.using, self.pk, self.epoch)
                renewals.add(self._renewed)

    def release(self) -> None:
        """Gives the thread back, and the lease where no commit has done so."""
        if self.in_force and not self.is_lost:
            self.in_force = False
            self.stop_renewal()
            try:
                lease_queries.FREE.run(self.using, thread=self.pk, epoch=self.epoch)
            except DatabaseError:
                # In a transaction that is undone the lease is undone, too; else it runs out.
                logger.info("thread %r: the lease was not given back", self.thread_id)
        super().release()

    def stop_renewal(self) -> None:
        """Renews the lease no more."""
        if self._renewed is not None:
            renewals.remove(self._renewed)
            self._renewed = None

    def _name_owner(self) -> str:
        if not self.owner:
            self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex}"[-255:]
        return self.owner

    def _refuse(self, why: str) -> LeaseHeldError:
        return LeaseHeldError(
            f"Thread {self.thread_id!r} is under way: {why}. Wait for its end; the lease of a "
            f"process that died runs out after {hitl.LEASE_SECONDS:g} seconds.",
            thread_id=self.thread_id,
        )


class _DirectCallRenewal(RenewedLease):
    def __init__(self, using: str, thread: int | None, epoch: int) -> None:
        super().__init__()
        self.using, self.thread, self.epoch = using, thread, epoch

    def renew(self) -> None:
        key = {"thread": self.thread, "epoch": self.epoch}
        try:
            lease_queries.RENEW.run(self.using, **key, duration=_duration())
        except Exception:
            # The next may come through before the lease has run out; if none does, somebody else
            # may take the thread, and the run's next commit is refused.
            logger.exception("thread %s: lease not renewed", self.thread)


def _add_nothing(pk: int, batch: WriteBatch) -> None:
    """Adds no rows beside the thread's."""


def _duration() -> timedelta:
    return timedelta(seconds=hitl.LEASE_SECONDS)
