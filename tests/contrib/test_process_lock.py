"""Locks between processes, after the death of the process that has the lock."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from hitl_django.contrib.django_q2.process_lock import ProcessLock, ProcessLocks, SharedFlag

fork = multiprocessing.get_context("fork")


@pytest.fixture
def lock() -> Iterator[ProcessLock]:
    locks = ProcessLocks()
    yield locks.create()
    os.close(locks.file)


def _die_with(lock: ProcessLock, sending: Connection) -> None:
    lock.acquire()
    lock.acquire()
    lock.release()
    sending.send("locked")
    signal.pause()


def _call(function: Callable[[], Any]) -> Any:
    """Call a function in a forked process, and return the result."""
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sending.send(function()))
    process.start()
    process.join()
    return receiving.recv()


def _is_free(lock: ProcessLock) -> bool:
    try:
        fcntl.lockf(lock._locks.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, lock._offset)
    except BlockingIOError:
        return False
    return True


def test_process_lock_excludes_other_processes_until_its_killed_process_has_ended(
    lock: ProcessLock,
) -> None:
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=_die_with, args=(lock, sending))
    process.start()
    assert receiving.recv() == "locked"
    assert not _is_free(lock)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert lock.acquire()


def test_process_lock_is_released_with_its_outermost_block_and_excludes_no_other_lock(
    lock: ProcessLock,
) -> None:
    other = lock._locks.create()
    with lock:
        with lock:
            pass
        assert not _call(lambda: _is_free(lock))
        assert _call(lambda: _is_free(other))
    assert _call(lambda: _is_free(lock))


def test_process_lock_is_acquired_after_mistaken_deadlock_report_of_kernel(
    lock: ProcessLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(errno.EDEADLK, "deadlock"), OSError(errno.ENOLCK, "no locks")]
    results = iter([errors[0], None, errors[1]])

    def lockf(*arguments: object) -> None:
        if (error := next(results)) is not None:
            raise error

    monkeypatch.setattr(fcntl, "lockf", lockf)
    assert lock.acquire()
    with pytest.raises(OSError, match="no locks"):
        ProcessLock(lock._locks, 1).acquire()


def test_shared_flag_set_in_one_process_is_set_in_all_processes() -> None:
    flag = SharedFlag()
    assert not flag.is_set()
    _call(flag.set)
    assert flag.is_set()
