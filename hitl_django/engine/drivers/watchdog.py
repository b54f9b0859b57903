"""The watchdog of threads that run their caller's tasks themselves, lest one be held up.

One thread of the process does, while there is anything to look after: to begin or to wake one for
each step would cost more than most steps take. A forked process begins without one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

logger = logging.getLogger("hitl_django")
#: How often it looks, in seconds.
INTERVAL = 0.001
#: So many looks at nothing, and it waits to be woken; so many seconds of that, and it ends.
_LOOKS, _REST = 50, 0.5


class MonitoredThread(Protocol):
    """What is looked after."""

    def monitor(self) -> None:
        """Does what has to be done for a worker that may be held up; called on another thread."""


class Watchdog:
    """The thread, and whom it looks after."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._workers: set[MonitoredThread] = set()
        self._asleep = True
        self._thread: threading.Thread | None = None

    def add(self, worker: MonitoredThread) -> None:
        """Look after a worker from now on; takes no lock while the thread is awake."""
        self._workers.add(worker)
        if self._asleep:
            self._wake()

    def remove(self, worker: MonitoredThread) -> None:
        """Forget a worker, which may be looked at once more all the same."""
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
        while looks < _LOOKS or self._rests():
            if looks >= _LOOKS:
                looks = 0
            time.sleep(INTERVAL)
            workers = self._workers.copy()
            looks = 0 if workers else looks + 1
            for worker in workers:
                try:
                    worker.monitor()
                except Exception:
                    # No thread could be started, say: its tasks go on one after the other.
                    logger.exception(
                        "could not start more threads; running the step's tasks sequentially"
                    )
                    self.remove(worker)

    def _rests(self) -> bool:
        """Wait to be woken; False when nobody did for a while."""
        with self._changed:
            self._asleep = True
            # Whoever came before the line above didn't see that there was somebody to wake.
            if not self._workers:
                self._changed.wait(_REST)
                # Who woke it may have gone again; that it was woken is what counts.
                if self._asleep:
                    self._thread = None
                    return False
            self._asleep = False
            return True


watchdog = Watchdog()


def _restart() -> None:
    watchdog.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_restart)
