"""A lease on a thread's row, whoever has taken it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from hitl_django.conf import hitl
from hitl_django.db.prepared_query import PreparedUpdate
from hitl_django.db.write_batch import Row, WriteBatch
from hitl_django.errors import LeaseLostError

from . import queries


def lease_duration() -> timedelta:
    """Return the time for which a thread is leased when its lease is taken or renewed."""
    return timedelta(seconds=hitl.LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The thread that a saver is bound to: its row, its name, and the epoch to write under."""

    pk: int
    thread_id: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ThreadLease(ThreadKey):
    """The right to run a thread for a time, in the epoch that began when the lease was taken.

    A worker has one for its run, a direct call for its own. Every statement names the epoch: a
    process that was frozen, cut off or slow changes nothing once another has taken the thread.
    """

    _: KW_ONLY
    using: str
    duration: timedelta = field(default_factory=lease_duration)

    def fence(self, batch: WriteBatch) -> None:
        """Require in ``batch`` that the lease is not lost.

        The thread's row is locked and not written. Where the lease has run out it is extended
        instead, so that a direct call that read the thread meanwhile can't take it.
        """
        batch.lock(queries.FENCE, self.values(), LeaseLostError, otherwise=queries.RENEW)

    def guard(
        self,
        batch: WriteBatch,
        statement: PreparedUpdate,
        receive: Callable[[Row], object] | None = None,
    ) -> None:
        """Add an UPDATE of the thread to ``batch`` that requires the lease's epoch."""
        batch.guard(statement, self.values(), LeaseLostError, receive)

    def renew(self) -> bool:
        """Extend the lease; return False where it was released or another has the thread."""
        return bool(queries.RENEW.run(self.using, **self.values()))

    def release(self) -> bool:
        """Release the thread as it is; return False where another has it."""
        return bool(queries.RELEASE.run(self.using, **self.values()))

    def values(self) -> dict[str, Any]:
        """Return the values of a statement that finds the thread only in the lease's epoch."""
        return {"thread": self.pk, "epoch": self.epoch, "duration": self.duration}


def name_owner() -> str:
    """Return a name for the owner of a new lease: host, process and a unique part."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex}"[-255:]
