"""Signal handlers of django-q2 worker processes: heartbeats, status reports, graceful shutdown.

By default, SIGTERM ends a django-q2 worker immediately. The worker's run can then resume only after
the lease has expired. A worker that was waiting for a task doesn't release the lock of the queue,
so all other workers wait forever. With these handlers, a worker releases its run after the current
super-step, releases all locks, and then exits. SIGURG does the same without exiting. Other
processes ignore SIGURG, so a supervisor can send it to all processes of a cluster.

The handlers are installed in django-q2's ``post_spawn`` signal. Other processes that run tasks, for
example a web server with ``sync`` or a test, are not affected.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from django_q.conf import Conf
from django_q.signals import post_execute, post_execute_in_worker, post_spawn, pre_execute

from hitl_django.task_queue import dispatcher, heartbeat, parent_death, supervisor_pipe

from . import wake_up

ENDED = 128 + signal.SIGTERM  # The exit code that a shell reports after SIGTERM.

#: qcluster forks the sentinel, and the sentinel forks workers, monitor and pusher. Processes that a
#: node forks are not affected.
FORKS_OF_QCLUSTER = 2


class _Process:
    """State of this worker process.

    ``until`` is the deadline of the current task.
    """

    pid: int | None = None
    task: str | None = None
    until = float("inf")
    is_ending = False


def connect_signals() -> None:
    """Connect to django-q2's signals, for all processes forked from the current one."""
    for signal_, receiver in (
        (post_spawn, _spawned),
        (pre_execute, _begins),
        (post_execute_in_worker, _ends),
        (post_execute, _settles),
    ):
        signal_.connect(receiver, dispatch_uid=f"hitl_django.{receiver.__name__}")
    if supervisor_pipe.is_supervised():
        parent_death.extend_to_forks(FORKS_OF_QCLUSTER)


def _spawned(**kwargs: Any) -> None:
    if not _needs_handlers():
        return
    _Process.pid = os.getpid()
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGURG, _drain)


def _needs_handlers() -> bool:
    """Return whether this is a django-q2 worker process without this module's signal handlers."""
    return (
        multiprocessing.parent_process() is not None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        and not Conf.SYNC
    )


def _begins(task: dict[str, Any], **kwargs: Any) -> None:
    if _Process.pid != os.getpid():
        return
    _Process.task = str(task["func"])
    if _Process.task == dispatcher.ADVANCE_DUE:
        wake_up.note_begun()
    _Process.until = time.monotonic() + Conf.TIMEOUT if Conf.TIMEOUT else float("inf")
    # A task of the project may have a different timeout, which isn't available here. django-q2
    # kills the process if the timeout is exceeded.
    limit = Conf.TIMEOUT if _Process.task in _list_functions() else None
    supervisor_pipe.report_status("busy", float(limit or 0))


def _list_functions() -> frozenset[str]:
    return dispatcher.list_functions() | {dispatcher.SWEEP}


def _ends(**kwargs: Any) -> None:
    if _Process.pid != os.getpid():
        return
    if not _Process.is_ending:
        heartbeat.report_work()
    # Until here, a signal only sets a flag. An exception raised in the report, in a database
    # callback or in a destructor would be lost.
    _Process.task = None
    if _Process.is_ending:
        # The message isn't acknowledged, so it is redelivered unnecessarily.
        raise SystemExit(ENDED)
    supervisor_pipe.report_status("idle")


def _settles(**kwargs: Any) -> None:
    supervisor_pipe.report_status(
        "settled"
    )  # The monitor sends this signal when the result is stored and the message is acknowledged.


def _terminate(number: int, frame: FrameType | None) -> None:
    if _Process.pid != os.getpid() or _is_stubborn():
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    from hitl_django.worker import runner

    runner.drain("SIGTERM")
    _Process.is_ending = True
    if _Process.task is None:
        raise SystemExit(ENDED)


def _is_stubborn() -> bool:
    """Return whether the current task can't be stopped between two super-steps.

    The result is true for tasks of the project, and for tasks past their deadline. django-q2 itself
    stops a worker whose task exceeds its timeout.
    """
    if _Process.task is None:
        return False
    is_run = _Process.task in (dispatcher.ADVANCE, dispatcher.ADVANCE_DUE)
    return not is_run or time.monotonic() >= _Process.until


def _drain(number: int, frame: FrameType | None) -> None:
    from hitl_django.worker import runner

    runner.drain("shutdown")
