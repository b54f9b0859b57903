"""Signal handlers of django-q2's worker processes: heartbeats, status reports, orderly shutdown.

By itself SIGTERM ends a django-q2 worker at once. A run it was in waits for its lease to run out,
and if the worker was waiting for a task, it takes the lock of the queue along, which leaves all
other workers waiting for ever. Here a worker leaves its run at the next step's edge and lets go of
everything before it ends. SIGURG does the same without ending it: processes that don't know it
ignore it, so a supervisor can send it to all of a cluster at once.

django-q2 announces each step of a worker by a signal of its own. Everything below follows from
``post_spawn``, so no other process that runs tasks (a web server with ``sync``, a test) is changed.
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
from hitl_django.worker import runner

ENDED = 128 + signal.SIGTERM  # as a shell reports a process that SIGTERM has ended

#: qcluster forks its sentinel, and that forks workers, monitor and pusher: two generations. What a
#: node forks lives as long as the node likes.
FORKS = 2


class _Process:
    """This process as a worker; ``until`` is when the task it holds is over time."""

    pid: int | None = None
    task: str | None = None
    until = float("inf")
    is_ending = False


def connect_signals() -> None:
    """Listen to django-q2's signals, in every process that it forks from this one."""
    for signal_, receiver in (
        (post_spawn, _spawned),
        (pre_execute, _begins),
        (post_execute_in_worker, _ends),
        (post_execute, _settles),
    ):
        signal_.connect(receiver, dispatch_uid=f"hitl_django.{receiver.__name__}")
    if supervisor_pipe.is_supervised():
        parent_death.extend_to_forks(FORKS)


def _spawned(**kwargs: Any) -> None:
    if not _is_worker():
        return
    _Process.pid = os.getpid()
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGURG, _drain)


def _is_worker() -> bool:
    """Return whether this is a worker process of django-q2 whose signals nobody handles yet."""
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
    _Process.until = time.monotonic() + Conf.TIMEOUT if Conf.TIMEOUT else float("inf")
    # A task of the product's may have a timeout of its own, which isn't told here; django-q2 ends
    # the process that goes beyond it.
    limit = Conf.TIMEOUT if _Process.task in _list_functions() else None
    supervisor_pipe.report_status("busy", float(limit or 0))


def _list_functions() -> frozenset[str]:
    return dispatcher.list_functions() | {dispatcher.SWEEP}


def _ends(**kwargs: Any) -> None:
    if _Process.pid != os.getpid():
        return
    if not _Process.is_ending:
        heartbeat.report_work()
    # Until here a signal only says that this process is to end: raised within the report, in what
    # the database calls or while an object is destroyed, its exception would be dropped.
    _Process.task = None
    if _Process.is_ending:
        # The message isn't acknowledged, so it comes again: one message too many.
        raise SystemExit(ENDED)
    supervisor_pipe.report_status("idle")


def _settles(**kwargs: Any) -> None:
    supervisor_pipe.report_status(
        "settled"
    )  # said by the monitor: the result is in, the message acknowledged


def _terminate(number: int, frame: FrameType | None) -> None:
    if _Process.pid != os.getpid() or _is_stubborn():
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    runner.drain("SIGTERM")
    _Process.is_ending = True
    if _Process.task is None:
        raise SystemExit(ENDED)


def _is_stubborn() -> bool:
    """Return whether waiting is no use: a task that isn't ours, or one that is over time.

    django-q2 itself sends SIGTERM to a worker whose task didn't end in time.
    """
    if _Process.task is None:
        return False
    return _Process.task != dispatcher.ADVANCE or time.monotonic() >= _Process.until


def _drain(number: int, frame: FrameType | None) -> None:
    runner.drain("shutdown")
