"""A watchdog that detects drivers whose OS thread is blocked by a task.

One OS thread per process checks all monitored drivers. The OS thread continues for a moment after
the last driver was removed, because starting or waking an OS thread for each super-step would take
longer than most super-steps. A forked process starts without the watchdog.
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
#: The number of checks without a driver before the watchdog waits for one, and the seconds until it
#: then ends.
_LOOKS, _REST = 50, 0.5


class MonitoredThread(Protocol):
    """A driver that the watchdog monitors."""

    def monitor(self) -> None:
        """Check whether a task blocks this driver.

        The watchdog's OS thread calls the method regularly.
        """


class Watchdog:
    """The OS thread that checks drivers, and the set of monitored drivers."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._drivers: set[MonitoredThread] = set()
        self._asleep = True
        self._thread: threading.Thread | None = None

    def add(self, driver: MonitoredThread) -> None:
        """Start to monitor a driver, and wake the watchdog if it is asleep."""
        self._drivers.add(driver)
        if self._asleep:
            self._wake()

    def remove(self, driver: MonitoredThread) -> None:
        """Stop monitoring a driver. The watchdog may check it one more time afterwards."""
        self._drivers.discard(driver)

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
        while looks < _LOOKS or self._wait_for_driver():
            if looks >= _LOOKS:
                looks = 0
            time.sleep(INTERVAL)
            drivers = self._drivers.copy()
            looks = 0 if drivers else looks + 1
            for driver in drivers:
                try:
                    driver.monitor()
                except Exception:
                    # For example, no OS thread could be started. The driver's tasks then run one
                    # after the other.
                    logger.exception(
                        "could not start more threads; running the step's tasks sequentially"
                    )
                    self.remove(driver)

    def _wait_for_driver(self) -> bool:
        """Wait until a driver is added.

        Return False if the maximum time passes without a new driver.
        """
        with self._changed:
            self._asleep = True
            # A driver added before the previous line did not wake the OS thread, because the thread
            # was not yet marked as asleep.
            if not self._drivers:
                self._changed.wait(_REST)
                # The driver may already be removed again, but the OS thread was woken.
                if self._asleep:
                    self._thread = None
                    return False
            self._asleep = False
            return True


watchdog = Watchdog()


def _restart() -> None:
    watchdog.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_restart)
