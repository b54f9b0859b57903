"""Leases in this process, one per thread, that prevent concurrent runs of the thread.

Two concurrent runs of a thread would run the same nodes and use the same resume value. Reading a
thread and calling ``update_state`` need no lease.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from inspect import isgenerator
from typing import Any, Generic, TypeVar

from ..errors import LeaseLostError, LeaseTakenError

#: A reference to the generator that executes a run. The generator is suspended until its caller
#: requests a chunk.
Stream = weakref.ref[Any]


class LocalThreadLease:
    """The lease of one run on its thread, in this process.

    A saver with shared storage uses a subclass that also takes the lease in the storage. The engine
    makes these calls:

    - ``check`` before it reads the thread
    - ``enforce`` before the run's first tasks, unless the lease is already ``in_force``
    - ``release`` at the end of the run

    Each commit of the run contains this object, so that the saver can check the lease.
    """

    __slots__ = ("_caller", "_leases", "_process", "_stream", "is_lost", "is_over", "thread_id")

    #: Whether no other run of the thread can start in any process.
    in_force = True

    def __init__(self, leases: LocalThreadLeases[Any], thread_id: str, stream: Stream) -> None:
        self._leases, self.thread_id, self._stream = leases, thread_id, stream
        self._caller, self._process = _get_caller(), os.getpid()
        #: ``is_lost``: another run has taken over the thread, so this run must not store anything.
        #: ``is_over``: the lease was released.
        self.is_lost = self.is_over = False

    def check(self) -> None:
        """Check that no other run has a lease on the thread in the storage.

        Raises:
            LeaseTakenError: another run has the lease.
        """

    def enforce(self) -> None:
        """Take the lease in the storage.

        Raises:
            LeaseTakenError: another run has the lease.
        """

    def take_over(self, left: Any) -> None:
        """Take over the thread from the lease ``left`` of an abandoned run.

        The abandoned run then has no lease any more.
        """
        left.is_lost = True

    def release(self) -> None:
        """Release the lease, unless it was already released or lost.

        The commit with the outcome of the run releases the lease in the storage. After this commit,
        this method doesn't access the storage.
        """
        self.is_over = True
        self._leases.drop(self)

    def is_abandoned(self) -> bool:
        """Return whether the caller has abandoned the stream of the run.

        A suspended stream counts as abandoned if the OS thread or asyncio task that started the run
        now starts another run of the same thread.
        """
        stream = self._stream()
        if stream is None or self._process != os.getpid():
            return True
        is_running = stream.gi_running if isgenerator(stream) else stream.ag_running
        return not is_running and self._caller is _get_caller()

    def refuse_lost(self) -> None:
        """Raise LeaseLostError if another run has taken over the thread."""
        if self.is_lost:
            raise LeaseLostError(
                f"Another run has taken over thread {self.thread_id!r}. Nothing more will "
                "be stored for this run.",
                thread_id=self.thread_id,
            )


LeaseT = TypeVar("LeaseT", bound=LocalThreadLease)


class LocalThreadLeases(Generic[LeaseT]):
    """The leases of this process on the threads of one storage."""

    def __init__(self, make: Callable[[LocalThreadLeases[LeaseT], str, Stream], LeaseT]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._taken: dict[str, LeaseT] = {}

    def take(self, thread_id: str, stream: Stream) -> LeaseT:
        """Lease a thread for the run whose generator is ``stream``.

        If the run with the current lease is abandoned, its lease is taken over.

        Raises:
            LeaseTakenError: another run has the lease.
        """
        lease = self._make(self, thread_id, stream)
        with self._lock:
            other = self._taken.get(thread_id)
            if other is not None:
                if not other.is_abandoned():
                    raise LeaseTakenError(
                        f"Thread {thread_id!r} is in use by another run in this process. "
                        "Wait until it ends, or close its stream.",
                        thread_id=thread_id,
                    )
                lease.take_over(other)
            self._taken[thread_id] = lease
        return lease

    def drop(self, lease: LocalThreadLease) -> None:
        """Remove a lease, unless another run has already taken over the thread."""
        with self._lock:
            if self._taken.get(lease.thread_id) is lease:
                del self._taken[lease.thread_id]


def _get_caller() -> Any:
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()
