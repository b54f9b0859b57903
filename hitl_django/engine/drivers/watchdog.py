"""The watchdog of OS threads that run their caller's tasks, which may be blocked by a task.

One thread per process checks all of them, and only while there are any. Starting or waking a thread
for each step would take longer than most steps. A forked process starts without it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

logger = logging.getLogger("hitl_django")
#: Seconds between two checks.
INTERVAL = 0.001
#: The number of checks without a worker before it waits, and the seconds until it then ends.
_LOOKS, _REST = 50, 0.5


class MonitoredThread(Protocol):
    """A worker to check."""

    def monitor(self) -> None:
        """Act if the worker is blocked; called on another OS thread."""


class Watchdog:
    """The checking thread and its workers."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._workers: set[MonitoredThread] = set()
        self._asleep = True
        self._thread: threading.Thread | None = None

    def add(self, worker: MonitoredThread) -> None:
        """Add a worker; takes no lock while the thread is awake."""
        self._workers.add(worker)
        if self._asleep:
            self._wake()

    def remove(self, worker: MonitoredThread) -> None:
        """Remove a worker, which may still be checked once more."""
        self._workers.discard(worker)

    def _wake(self) -> None:
        with self._changed:
            self._asleep = False
            if self._thread is None:
                thread = threading.Thread(target=self._continue, name="hitl-watchdog", daemon=True)
                thread.start()
                self._thread = thread
            else:
                self._changed.notify()

    def _continue(self) -> None:
        looks = 0
        while looks < _LOOKS or self._wait_for_worker():
            if looks >= _LOOKS:
                looks = 0
            time.sleep(INTERVAL)
            workers = self._workers.copy()
            looks = 0 if workers else looks + 1
            for worker in workers:
                try:
                    worker.monitor()
                except Exception:
                    # For example, no thread could be started. Its tasks then run one after the
                    # other.
                    logger.exception(
                        "could not start more threads; running the step's tasks sequentially"
                    )
                    self.remove(worker)

    def _wait_for_worker(self) -> bool:
        """Wait to be woken; return False after a time without a wake-up."""
        with self._changed:
            self._asleep = True
            # A worker added before the previous line didn't know that the thread has to be woken.
            if not self._workers:
                self._changed.wait(_REST)
                # The worker may already be removed again, but the thread was woken.
                if self._asleep:
                    self._thread = None
                    return False
            self._asleep = False
            return True


watchdog = Watchdog()


def _restart() -> None:
    watchdog.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_restart)
