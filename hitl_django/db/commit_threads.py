"""Threads that store commits beside the threads that runs are on, each by its own connection.

A thread stores one commit at a time. It is kept for the next, with its connection, and ends when
there has been none for a while. A forked process begins without any.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from .connections import close_connections

#: Seconds without a commit after which a thread ends.
IDLE = 5.0
#: What a thread is to do, and what is told of how that went; None where it is to end.
_Work = tuple[Callable[[], None], Future[None]] | None


class CommitThreads:
    """The threads of this process that store commits."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all threads: they stay behind where a process is forked."""
        self._lock = threading.Lock()
        self._idle: list[_CommitThread] = []

    def submit(self, store: Callable[[], None]) -> Future[None]:
        """Has a thread store a commit; the future can't be cancelled."""
        stored: Future[None] = Future()
        stored.set_running_or_notify_cancel()
        with self._lock:
            thread = self._idle.pop() if self._idle else None
        if thread is None:
            thread = _CommitThread(self)
            thread.start()
        thread.inbox.put((store, stored))
        return stored

    def close(self) -> None:
        """End the threads that have nothing to do, and wait for that."""
        with self._lock:
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.inbox.put(None)
        for thread in idle:
            thread.join()

    def keep(self, thread: _CommitThread) -> None:
        """Keep a thread that has nothing to do for the next commit."""
        with self._lock:
            self._idle.append(thread)

    def drop(self, thread: _CommitThread) -> bool:
        """Forget a thread that was idle for long; False where it was just given something."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            return True


class _CommitThread(threading.Thread):
    def __init__(self, threads: CommitThreads) -> None:
        super().__init__(name="hitl-commit", daemon=True)
        self.threads = threads
        self.inbox: SimpleQueue[_Work] = SimpleQueue()

    def run(self) -> None:
        try:
            while (work := self._next()) is not None:
                self._do(*work)
        finally:
            close_connections()

    def _next(self) -> _Work:
        while True:
            try:
                return self.inbox.get(timeout=IDLE)
            except Empty:
                if self.threads.drop(self):
                    return None

    def _do(self, store: Callable[[], None], stored: Future[None]) -> None:
        try:
            store()
        except BaseException as error:
            # Nobody else looks after the connection, which may be what has failed.
            close_connections()
            self.threads.keep(self)
            stored.set_exception(error)
        else:
            self.threads.keep(self)
            stored.set_result(None)


commit_threads = CommitThreads()
os.register_at_fork(after_in_child=commit_threads.reset)
