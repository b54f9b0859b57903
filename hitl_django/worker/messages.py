"""Carrying out messages, in the worker processes of queues that have no signals of their own."""

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
    """Call what a message names, and reports that this process works.

    A queue's table or broker may be open to more people than its code is, so nothing is called but
    what messages are for: ValueError otherwise. SIGTERM leaves the run at its next step's edge, and
    then does what the queue has it do.
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
    """How many tasks the threads of this process carry out; a supervisor only knows processes."""

    lock = threading.Lock()
    count = 0


def begin_task() -> None:
    """Report that this process is busy, for as long as its node likes.

    The time slice bounds the run and not the node, and these queues kill nothing that takes long.
    """
    with _Tasks.lock:
        _Tasks.count += 1
        supervisor_pipe.report_status("busy")


def end_task() -> None:
    """Report that this process is idle, unless another of its threads is busy."""
    with _Tasks.lock:
        _Tasks.count = max(0, _Tasks.count - 1)
        if not _Tasks.count:
            supervisor_pipe.report_status("idle")
            supervisor_pipe.report_status("settled")


def drain_on_sigterm() -> None:
    """Leave all runs of this process at their next steps' edges when its supervisor ends it.

    For a queue whose workers are threads: no handler of SIGTERM can be theirs.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and supervisor_pipe.is_supervised():
        signal.signal(signal.SIGURG, lambda *_: runner.drain("shutdown"))


@contextmanager
def _draining() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # where no handler can be installed
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
