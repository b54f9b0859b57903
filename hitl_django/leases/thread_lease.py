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
    """Return the time until a lease expires after it's taken or renewed."""
    return timedelta(seconds=hitl.LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The primary key of a thread's row, the thread id, and the epoch."""

    pk: int
    thread_id: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ThreadLease(ThreadKey):
    """A temporary exclusive right to execute a thread, for a worker or a direct graph call.

    Each lease has its own epoch, and every statement checks the epoch. A process that was suspended
    or disconnected can therefore not change anything after another process has taken the thread.
    """

    _: KW_ONLY
    using: str
    duration: timedelta = field(default_factory=lease_duration)

    def fence(self, batch: WriteBatch) -> None:
        """Add a statement to ``batch`` that locks the thread's row.

        The batch fails with a LeaseLostError if the lease is lost. If the lease has expired and no
        other process has taken the thread, the lease is extended, so that no direct graph call can
        take the thread.
        """
        batch.lock(queries.FENCE, self.values(), LeaseLostError, otherwise=queries.RENEW)

    def guard(
        self,
        batch: WriteBatch,
        statement: PreparedUpdate,
        receive: Callable[[Row], object] | None = None,
    ) -> None:
        """Add an UPDATE of the thread's row to ``batch``.

        The batch fails with a LeaseLostError if the lease is lost. ``receive`` is called with the
        row that the UPDATE returns.
        """
        batch.guard(statement, self.values(), LeaseLostError, receive)

    def renew(self) -> bool:
        """Extend the lease. Return False if the lease was released or lost."""
        return bool(queries.RENEW.run(self.using, **self.values()))

    def release(self) -> bool:
        """Release the lease. Return False if the lease was lost.

        The thread's number of attempts, i.e. claims without progress, isn't reset.
        """
        return bool(queries.RELEASE.run(self.using, **self.values()))

    def values(self) -> dict[str, Any]:
        """Return the parameters of a statement that finds the thread and checks the epoch."""
        return {"thread": self.pk, "epoch": self.epoch, "duration": self.duration}
