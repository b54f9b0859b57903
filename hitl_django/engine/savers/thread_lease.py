"""Leases on threads in this process: while a run has one, nobody else begins a run there.

Two runs of one thread would both run the same nodes, and both take an answer for theirs. Reading a
thread needs no lease, nor does changing it by ``update_state``.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from inspect import isgenerator
from typing import Any, Generic, TypeVar

from ..errors import LeaseHeldError, LeaseLostError

#: Names the generator that performs a run, which goes on while its caller asks for the next chunk.
Stream = weakref.ref[Any]


class LocalThreadLease:
    """One run's lease on its thread, in this process.

    A saver whose storage other processes share has a subclass, which takes it there as well. The
    engine calls ``check`` before it reads the thread, ``enforce`` before the run's first tasks
    where the lease isn't ``in_force`` by then, and ``release`` at its end. The commits of the run
    have it as their ``lease``.
    """

    __slots__ = ("_caller", "_leases", "_process", "_stream", "is_lost", "is_over", "thread_id")

    #: Whether nobody else, wherever they are, can begin a run of the thread.
    in_force = True

    def __init__(self, leases: LocalThreadLeases[Any], thread_id: str, stream: Stream) -> None:
        self._leases, self.thread_id, self._stream = leases, thread_id, stream
        self._caller, self._process = _get_caller(), os.getpid()
        #: Whether another run has taken the thread over, so that nothing more of this is stored;
        #: and whether the thread was given back.
        self.is_lost = self.is_over = False

    def check(self) -> None:
        """Find the thread where it is stored; raises LeaseHeldError where a run has it."""

    def enforce(self) -> None:
        """Take the lease where the thread is stored; raises LeaseHeldError where a run has it."""

    def take_over(self, left: Any) -> None:
        """Take the thread from a run that was left half-way."""
        left.is_lost = True

    def release(self) -> None:
        """Give the thread back; does nothing where that was done, or the lease is lost.

        After the commit that has the run's outcome, with which the storage gives it back, it looks
        at nothing that is stored.
        """
        self.is_over = True
        self._leases.drop(self)

    def is_left(self) -> bool:
        """Return whether the run was left half-way by whoever asks now.

        So it is where the same thread, or asyncio task, has begun it and isn't within it: the run
        waits to be asked for its next chunk, by who asks for another run instead.
        """
        stream = self._stream()
        if stream is None or self._process != os.getpid():
            return True
        is_running = stream.gi_running if isgenerator(stream) else stream.ag_running
        return not is_running and self._caller is _get_caller()

    def refuse_lost(self) -> None:
        """Raise LeaseLostError where another run has taken the thread over."""
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
        """Take a thread for a run; raises LeaseHeldError where another run has it."""
        lease = self._make(self, thread_id, stream)
        with self._lock:
            other = self._taken.get(thread_id)
            if other is not None:
                if not other.is_left():
                    raise LeaseHeldError(
                        f"Thread {thread_id!r} is in use by another run in this process. "
                        "Wait until it ends, or close its stream.",
                        thread_id=thread_id,
                    )
                lease.take_over(other)
            self._taken[thread_id] = lease
        return lease

    def drop(self, lease: LocalThreadLease) -> None:
        """Forget a lease; one that another has taken the thread from is forgotten already."""
        with self._lock:
            if self._taken.get(lease.thread_id) is lease:
                del self._taken[lease.thread_id]


def _get_caller() -> Any:
    """Return the asyncio task that is running, or else the thread."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()
