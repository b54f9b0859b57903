"""The lease of a direct graph call on its thread.

The lease is taken with the first commit of the run. If the run has no commit before its first
tasks, the lease is taken before these tasks. Each later commit checks the epoch, like the commits
of a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import DatabaseError, IntegrityError, connections

from hitl_django.conf import hitl
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.savers.thread_lease import LocalThreadLease, LocalThreadLeases, Stream
from hitl_django.errors import LeaseLostError, LeaseTakenError
from hitl_django.models import Thread

from . import queries, thread_rows
from .lease_owner import has_ended, name_owner
from .renewal import LeaseRenewal, renewals
from .thread_lease import ThreadLease, lease_duration

logger = logging.getLogger("hitl_django")

#: A function that adds rows of a run to a batch, for the thread with the given key.
AddRows = Callable[[int, WriteBatch], None]


class DirectCallLease(LocalThreadLease):
    """A lease on a thread, valid in this process and in the database ``using``.

    ``epoch`` is the epoch of the lease. ``in_force`` is true after the lease has been taken in the
    database.
    """

    __slots__ = (
        "_left_owner",
        "_owner",
        "_renewal",
        "_seen_owner",
        "_thread",
        "_using",
        "epoch",
        "in_force",
    )

    def __init__(
        self, using: str, leases: LocalThreadLeases[Any], thread_id: str, stream: Stream
    ) -> None:
        super().__init__(leases, thread_id, stream)
        self._using, self._owner, self._left_owner, self._seen_owner = using, name_owner(), "", ""
        self._thread: ThreadLease | None = None  # None until the thread's row is known.
        self._renewal: LeaseRenewal | None = None
        self.epoch, self.in_force = 1, False

    def take_over(self, left: DirectCallLease) -> None:
        """Take over the thread from ``left``, the lease of a run that this process has abandoned.

        If ``left`` is still valid in the database, this lease replaces it there.
        """
        super().take_over(left)
        left.stop_renewal()
        self._left_owner = left._owner

    def check(self) -> None:
        """Read the thread's row, if it exists, and check that no other process has the lease.

        Raises:
            LeaseTakenError: another process has the lease.
        """
        row = thread_rows.find_thread(self._using, self.thread_id)
        if row is None:
            return
        if row.is_leased and row.lease_owner != self._left_owner:
            if not has_ended(row.lease_owner):
                raise self._refuse(f"leased by {row.lease_owner}")
            self._left_owner = row.lease_owner
        self.epoch, self._seen_owner = row.epoch + 1, row.lease_owner
        self._bind(row.pk)

    def enforce(self) -> None:
        """Take the lease in the database.

        Raises:
            LeaseTakenError: another process has taken the lease first.
        """
        self.write(_add_nothing, ends=False)

    def write(self, add_rows: AddRows, *, ends: bool) -> None:
        """Write rows of the run. ``add_rows`` adds these rows to a batch.

        With ``ends``, also release the lease, because the run has ended.

        Raises:
            LeaseTakenError: another run took the lease before this run.
            LeaseLostError: another run took the lease from this run.
        """
        if self._thread is None:
            self._begin_thread(add_rows, ends=ends)
        else:
            batch = WriteBatch(self._using)
            self._guard(batch, self._thread, ends=ends)
            add_rows(self._thread.pk, batch)
            try:
                batch.commit()
            except LeaseLostError:
                if thread_rows.find_thread(self._using, self.thread_id) is not None:
                    raise
                # The thread was deleted since, for example with delete_thread, so it is created
                # again.
                self.in_force = False
                self.stop_renewal()
                self._begin_thread(add_rows, ends=ends)
        self._note_written(ends=ends)

    def _begin_thread(self, add_rows: AddRows, *, ends: bool) -> None:
        owner, leased_for = ("", None) if ends else (self._owner, lease_duration())
        row = Thread(thread_id=self.thread_id, epoch=self.epoch, lease_owner=owner)
        try:
            self._bind(thread_rows.begin_thread(self._using, row, add_rows, leased_for))
        except IntegrityError as error:
            raise self._refuse("another run started first") from error

    def _bind(self, pk: int) -> None:
        self._thread = ThreadLease(pk, self.thread_id, self.epoch, using=self._using)

    def _guard(self, batch: WriteBatch, thread: ThreadLease, *, ends: bool) -> None:
        if not self.in_force:
            values = {**thread.values(), "epoch": self.epoch - 1, "owner": self._owner}
            values |= {"seen": self._seen_owner, "left": self._left_owner}
            if ends:
                values |= {"owner": "", "duration": None}
            refusal = self._refuse("another run took over the thread")
            batch.guard(queries.TAKE, values, refusal)
        elif ends:
            thread.guard(batch, queries.RELEASE_AFTER_PROGRESS)
        else:
            thread.fence(batch)

    def _note_written(self, *, ends: bool) -> None:
        if ends:
            self.in_force = False
            self.stop_renewal()
        elif not self.in_force:
            self.in_force = True
            # Inside a caller's transaction, other processes wait for the row instead of seeing the
            # lease.
            if self._thread is not None and not connections[self._using].in_atomic_block:
                self._renewal = LeaseRenewal(self._thread)
                renewals.add(self._renewal)

    def release(self) -> None:
        """Release the lease in this process.

        Also release it in the database, if it's still valid there.
        """
        if self.in_force and self._thread is not None and not self.is_lost:
            self.in_force = False
            self.stop_renewal()
            try:
                self._thread.release()
            except DatabaseError:
                # If the transaction is rolled back, the lease is rolled back, too. Otherwise, the
                # lease expires.
                fields = {"thread_id": self.thread_id}
                logger.info("thread %r: could not release the lease", self.thread_id, extra=fields)
        super().release()

    def stop_renewal(self) -> None:
        if self._renewal is not None:
            renewals.remove(self._renewal)
            self._renewal = None

    def _refuse(self, why: str) -> LeaseTakenError:
        return LeaseTakenError(
            f"Thread {self.thread_id!r} is in use: {why}. Wait until that run ends; the "
            f"lease of a dead process expires after {hitl.LEASE_SECONDS:g} seconds.",
            thread_id=self.thread_id,
        )


#: The leases of direct calls in this process, by database.
_LEASES: dict[str, LocalThreadLeases[DirectCallLease]] = {}


def take_thread(using: str, thread_id: str, stream: Stream) -> DirectCallLease:
    """Take the lease on a thread in this process, without access to the database.

    ``stream`` is a weak reference to the generator that executes the run.

    Raises:
        LeaseTakenError: another run in this process has the lease.
    """
    leases = _LEASES.get(using)
    if leases is None:
        leases = _LEASES.setdefault(using, LocalThreadLeases(partial(DirectCallLease, using)))
    return leases.take(thread_id, stream)


def _add_nothing(pk: int, batch: WriteBatch) -> None: ...
