"""django-q2's cluster, run by this process instead of by qcluster.

The sentinel starts the other processes of the cluster, and restarts them. qcluster forks a process
for the sentinel, and then only waits for signals. Here, the sentinel runs in this process and
receives the signals itself.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from types import FrameType
from typing import Any

from hitl_django.task_queue import parent_death

from . import named_cluster


def run_cluster() -> None:
    """Run the processes of the cluster until SIGTERM, and return when all of them have ended."""
    # Processes that run no cluster don't need the module.
    from .sentinel import LockingSentinel

    named_cluster.join_cluster()
    parent_death.extend_to_forks(1)
    stop: Any = _StopEvent()
    start: Any = threading.Event()
    sentinel = LockingSentinel(stop, start)
    stop.install()  # The sentinel has replaced all handlers.
    sentinel.start()


class _StopEvent:
    """The event that stops the sentinel. SIGTERM sets this event.

    A signal handler must not set an event of multiprocessing, because the code that the signal
    interrupts may have the lock of the event.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._is_set = False

    def install(self) -> None:
        """Install the handler of SIGTERM in this process, but not in its forks."""
        signal.signal(signal.SIGTERM, self._receive)
        os.register_at_fork(after_in_child=self._uninstall)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Wait until the event is set, but at most ``timeout`` seconds.

        Return whether the event is set.
        """
        select.select([self._reading], [], [], timeout)
        return self._is_set

    def _uninstall(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._is_set = True
        os.write(self._writing, b"x")
