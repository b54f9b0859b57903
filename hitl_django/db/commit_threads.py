"""OS threads that store the results of super-steps while runs continue.

Each OS thread has its own connection, and executes one call of ``submit`` at a time. The OS thread
keeps its connection for the next call, and ends after some time without calls. A forked process
starts without these OS threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from .connections import close_connections

#: Seconds without a commit after which an OS thread ends.
IDLE = 5.0
#: A function to call and the future for its result. None ends the OS thread.
_Work = tuple[Callable[[], None], Future[None]] | None


class CommitThreads:
    """The OS threads of this process that store the results of super-steps."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Remove all OS threads, because they don't exist in a forked process."""
        self._lock = threading.Lock()
        self._idle: list[_CommitThread] = []

    def submit(self, store: Callable[[], None]) -> Future[None]:
        """Call the function ``store`` on another OS thread, and return a future for its result.

        The future can't be cancelled.
        """
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
        """End the idle OS threads, and wait until they have ended."""
        with self._lock:
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.inbox.put(None)
        for thread in idle:
            thread.join()

    def keep(self, thread: _CommitThread) -> None:
        """Mark an OS thread as idle, so that ``submit`` can use it."""
        with self._lock:
            self._idle.append(thread)

    def drop(self, thread: _CommitThread) -> bool:
        """Remove an OS thread that has been idle for too long.

        Return False if ``submit`` has taken the OS thread for a call in the meantime.
        """
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
            # The connection may be the cause of the error, and no other code checks the connection.
            close_connections()
            self.threads.keep(self)
            stored.set_exception(error)
        else:
            self.threads.keep(self)
            stored.set_result(None)


commit_threads = CommitThreads()
os.register_at_fork(after_in_child=commit_threads.reset)
