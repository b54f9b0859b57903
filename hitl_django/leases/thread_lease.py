"""The lease of a worker or a direct call on a thread's row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any

from hitl_django.conf import hitl
from hitl_django.db.prepared_query import PreparedUpdate
from hitl_django.db.write_batch import Row, WriteBatch
from hitl_django.errors import LeaseLostError

from . import queries


def lease_duration() -> timedelta:
    """Return the time for which a lease is taken or renewed."""
    return timedelta(seconds=hitl.LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The identity of a thread to which a saver writes: key of its row, thread id, and epoch."""

    pk: int
    thread_id: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ThreadLease(ThreadKey):
    """The exclusive right to run a thread for a limited time.

    Workers and direct calls use this lease. Each lease has its own epoch, and every statement
    checks the epoch. A process that was suspended or disconnected can therefore not change anything
    after another process has taken the thread.
    """

    _: KW_ONLY
    using: str
    duration: timedelta = field(default_factory=lease_duration)

    def fence(self, batch: WriteBatch) -> None:
        """Make ``batch`` fail if the lease is lost.

        The thread's row is locked without an update. An expired lease is extended, so that a direct
        call that has read the thread can't take the lease.
        """
        batch.lock(queries.FENCE, self.values(), LeaseLostError, otherwise=queries.RENEW)

    def guard(
        self,
        batch: WriteBatch,
        statement: PreparedUpdate,
        receive: Callable[[Row], object] | None = None,
    ) -> None:
        """Add an UPDATE of the thread to ``batch``. The batch fails if the lease is lost."""
        batch.guard(statement, self.values(), LeaseLostError, receive)

    def renew(self) -> bool:
        """Extend the lease. Return False if it was released or lost."""
        return bool(queries.RENEW.run(self.using, **self.values()))

    def release(self) -> bool:
        """Release the lease of a run that made no progress. Return False if the lease was lost."""
        return bool(queries.RELEASE.run(self.using, **self.values()))

    def values(self) -> dict[str, Any]:
        """Return the parameters with which a statement finds the thread and checks the epoch."""
        return {"thread": self.pk, "epoch": self.epoch, "duration": self.duration}
