"""Locks and flags that the processes of a cluster share, and that survive the death of a process.

A lock of multiprocessing is a semaphore, which stays locked if its process is killed. An idle
worker, for example, has the lock of the queue while it waits for a task. After its death, no other
worker could take a task.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import mmap
import os
import tempfile
import time

#: Seconds before another attempt after a deadlock that the kernel has reported by mistake.
RETRY_SECONDS = 0.001


class ProcessLocks:
    """A factory of locks for this process and its forks.

    Each lock is a lock of the kernel on one byte of an unnamed file.
    """

    def __init__(self) -> None:
        self.file = _open_file()
        self._offsets = itertools.count()

    def create(self) -> ProcessLock:
        """Return a new lock."""
        return ProcessLock(self, next(self._offsets))


class ProcessLock:
    """A recursive lock between processes, which the kernel releases when its process ends.

    The lock has the interface of ``multiprocessing.RLock``, without timeouts. The lock doesn't
    exclude other OS threads of the same process.
    """

    def __init__(self, locks: ProcessLocks, offset: int) -> None:
        self._locks, self._offset = locks, offset
        self._depth = 0

    def acquire(self) -> bool:
        """Wait until no other process has the lock, and return True."""
        if not self._depth:
            self._lock()
        self._depth += 1
        return True

    def release(self) -> None:
        """Release the lock, unless this process has acquired the lock more often."""
        self._depth -= 1
        if not self._depth:
            fcntl.lockf(self._locks.file, fcntl.LOCK_UN, 1, self._offset)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _lock(self) -> None:
        while True:
            try:
                return fcntl.lockf(self._locks.file, fcntl.LOCK_EX, 1, self._offset)
            except OSError as error:
                # The kernel doesn't distinguish OS threads. If two OS threads of a process have and
                # await different locks, the kernel may report a deadlock that doesn't exist.
                if error.errno != errno.EDEADLK:
                    raise
            time.sleep(RETRY_SECONDS)


class SharedFlag:
    """A flag that any process can set, without a lock.

    The flag has the interface of ``multiprocessing.Event``, without ``clear`` and ``wait``.
    """

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def is_set(self) -> bool:
        """Return whether a process has set the flag."""
        return bool(self._byte[0])

    def set(self) -> None:
        """Set the flag for all processes."""
        self._byte[0] = 1


def _open_file() -> int:
    """Return the descriptor of a new file without a name."""
    if hasattr(os, "memfd_create"):  # A container may have no directory for temporary files.
        return os.memfd_create("locks")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
