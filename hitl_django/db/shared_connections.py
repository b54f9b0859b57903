"""Connections that are lent, for a call at a time, to threads that have none of their own.

Whoever begins threads anew for each piece of work would have each open a connection, and leave it
to the garbage collector. One that was lent is kept for the next call, and closed when there has
been none for a while. A forked process begins without any. SQLite has one writer at a time and lets
the others sleep a millisecond or more, so one call at a time is lent a connection to it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from typing import Any

from django.db import connections

logger = logging.getLogger("hitl_django")

#: Seconds without a call after which a connection is closed.
IDLE = 5.0


class SharedConnections:
    """The connections of this process that are lent or wait for the next call."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all connections: they stay behind where a process is forked."""
        self._lock = threading.Condition()
        #: Those that wait, with the moment since when; the last is lent first.
        self._idle: list[tuple[float, Any]] = []
        self._is_watched = False
        self._turns = defaultdict[str, Any](threading.RLock)

    @contextmanager
    def lend(self, using: str) -> Iterator[Any]:
        """Give this thread a connection for the block, in the place of its own."""
        own = connections[using]
        with self._turns[using] if own.vendor == "sqlite" else nullcontext():
            connections[using] = lent = self._take(using)
            try:
                yield lent
            except BaseException:
                # Nobody else looks after the connection, which may be what has failed.
                connections[using] = own
                _close(lent)
                raise
            connections[using] = own
            self._give_back(lent)

    def close(self) -> None:
        """Close the connections that wait."""
        self._close_idle(float("inf"))

    def _take(self, using: str) -> Any:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][1].alias == using:
                    return self._idle.pop(place)[1]
        lent = connections.create_connection(using)
        lent.inc_thread_sharing()
        # Who hears of new connections would take it for one of the work that goes on here.
        Context().run(lent.ensure_connection)
        return lent

    def _give_back(self, lent: Any) -> None:
        with self._lock:
            self._idle.append((time.monotonic(), lent))
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="hitl-connections", daemon=True).start()

    def _watch(self) -> None:
        """Close what waits for long, until nothing waits."""
        lock = self._lock  # that of this process, where another is forked meanwhile
        while True:
            self._close_idle(time.monotonic() - IDLE)
            with lock:
                if not self._idle:
                    self._is_watched = False
                    return
                lock.wait(IDLE)

    def _close_idle(self, before: float) -> None:
        """Close the connections that wait since before a moment."""
        lock = self._lock
        with lock:
            closed = [lent for since, lent in self._idle if since <= before]
            self._idle = [one for one in self._idle if one[0] > before]
            lock.notify_all()
        for lent in closed:
            _close(lent)


def _close(lent: Any) -> None:
    try:
        lent.close()
    except Exception:
        logger.exception("could not close a connection to %r", lent.alias)


lent_connections = SharedConnections()
os.register_at_fork(after_in_child=lent_connections.reset)
