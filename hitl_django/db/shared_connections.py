"""Database connections that OS threads without a connection borrow for one call at a time.

A library may start a new OS thread for each task. Each of these OS threads would open a connection
that is closed only by garbage collection. A shared connection is reused for the next call, and
closed after some time without calls. A forked process starts without shared connections.

On SQLite, only one call at a time gets a connection. SQLite has only one writer, and a connection
that waits for the writer sleeps between its attempts.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from typing import Any

from django.db import connections

logger = logging.getLogger("hitl_django")

#: Seconds without a call after which a connection is closed.
IDLE = 5.0


class SharedConnections:
    """The shared connections of this process, borrowed or idle."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Remove all connections, because a forked process must not use them."""
        self._lock = threading.Condition()
        #: Idle connections, each with the time since which it is idle. The last connection is used
        #: first.
        self._idle: list[tuple[float, Any]] = []
        self._is_watched = False
        self._turns: dict[str, Any] = {}

    @contextmanager
    def use(self, using: str) -> Iterator[Any]:
        """Let this OS thread use a shared connection during the block."""
        own = connections[using]
        with self._get_turn(using) if own.vendor == "sqlite" else nullcontext():
            connections[using] = shared = self._take(using)
            try:
                yield shared
            except BaseException:
                # The connection may be the cause of the error, and no other code checks the
                # connection.
                connections[using] = own
                _close(shared)
                raise
            connections[using] = own
            self._give_back(shared)

    def close(self) -> None:
        """Close the idle connections."""
        self._close_idle(float("inf"))

    def _get_turn(self, using: str) -> Any:
        with self._lock:
            if using not in self._turns:
                self._turns[using] = threading.RLock()
            return self._turns[using]

    def _take(self, using: str) -> Any:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][1].alias == using:
                    return self._idle.pop(place)[1]
        shared = connections.create_connection(using)
        shared.inc_thread_sharing()
        # The context is empty, so that instrumentation doesn't assign the connection to the current
        # task.
        Context().run(shared.ensure_connection)
        return shared

    def _give_back(self, shared: Any) -> None:
        with self._lock:
            self._idle.append((time.monotonic(), shared))
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="hitl-connections", daemon=True).start()

    def _watch(self) -> None:
        """Close connections that have been idle for too long.

        Return when no idle connection is left.
        """
        lock = self._lock  # The lock belongs to this process, in case the process forks.
        while True:
            self._close_idle(time.monotonic() - IDLE)
            with lock:
                if not self._idle:
                    self._is_watched = False
                    return
                lock.wait(IDLE)

    def _close_idle(self, before: float) -> None:
        lock = self._lock
        with lock:
            closed = [shared for since, shared in self._idle if since <= before]
            self._idle = [one for one in self._idle if one[0] > before]
            lock.notify_all()
        for shared in closed:
            _close(shared)


def _close(shared: Any) -> None:
    try:
        shared.close()
    except Exception:
        logger.exception("could not close a connection to %r", shared.alias)


shared_connections = SharedConnections()
os.register_at_fork(after_in_child=shared_connections.reset)
