"""Handling of messages in workers of task queues, and release of a worker's runs on SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.utils.module_loading import import_string

from hitl_django.task_queue import dispatcher, heartbeat, supervisor_pipe

from . import runner


def perform(function: str, argument: str) -> None:
    """Call the function named in a message, and store a heartbeat.

    ``argument`` is the argument of the call. Only functions registered for messages are called,
    because other programs may be able to write to a queue's table or broker. On SIGTERM, the run
    that the function executes is released at the end of its super-step, and then the queue's own
    handler is called.

    Raises:
        ValueError: the function is not registered for messages.
    """
    if function not in dispatcher.list_functions():
        raise ValueError(f"No handler for messages to {function!r}.")
    begin_task()
    try:
        with _draining():
            import_string(function)(argument)
        heartbeat.report_work()
    finally:
        end_task()


class _Tasks:
    """The number of tasks that the OS threads of this process are executing.

    The process reports one status to the supervisor for all of them.
    """

    lock = threading.Lock()
    count = 0


def begin_task() -> None:
    """Report to the supervisor that this process executes a task without a time limit.

    A task may take longer than a time slice, because a time slice doesn't limit a single node. Use
    this function only for task queues that don't kill long tasks.
    """
    with _Tasks.lock:
        _Tasks.count += 1
        supervisor_pipe.report_status("busy")


def end_task() -> None:
    """Report that this process is idle, unless another of its OS threads is executing a task."""
    with _Tasks.lock:
        _Tasks.count = max(0, _Tasks.count - 1)
        if not _Tasks.count:
            supervisor_pipe.report_status("idle")
            supervisor_pipe.report_status("settled")


def drain_on_sigterm() -> None:
    """Install a SIGTERM handler that releases all runs of this process when it is stopped.

    Queues whose workers are OS threads need this handler, because OS threads can't handle signals.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and supervisor_pipe.is_supervised():
        signal.signal(signal.SIGURG, lambda *_: runner.drain("shutdown"))


@contextmanager
def _draining() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main OS thread can install a handler.
        return
    before: Any = signal.getsignal(signal.SIGTERM)

    def drain(number: int, frame: FrameType | None) -> None:
        runner.drain("SIGTERM")
        if callable(before):
            before(number, frame)
        elif before is not signal.SIG_IGN:
            leaving.append(number)

    leaving: list[int] = []
    signal.signal(signal.SIGTERM, drain)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    if leaving:
        signal.raise_signal(signal.SIGTERM)
