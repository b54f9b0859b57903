"""Calls in a forked process, whose imports use no memory in this process."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.core.management.base import CommandError
from django.db import connections

Result = TypeVar("Result")


def call_in_fork(function: Callable[[], Result]) -> Result:
    """Call a function in a forked process, and return its result or raise its CommandError.

    The result is pickled. The function is called in this process if this process can't fork, has
    other OS threads, whose locks a forked process would wait for, or has an open database
    connection, which a forked process must not use.

    Raises:
        CommandError: as raised by the function, or if the forked process ends without a result.
    """
    if not _can_fork():
        return function()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, sender))
    process.start()
    sender.close()  # Otherwise, recv() would wait for a result of an ended process.
    try:
        result, error = receiver.recv()
    except EOFError:
        raise CommandError("The forked process of this command ended unexpectedly.") from None
    finally:
        process.join()
    if error is not None:
        raise error
    return cast(Result, result)


def _can_fork() -> bool:
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return False
    return all(each.connection is None for each in connections.all(initialized_only=True))


def _send_result(function: Callable[[], Any], sender: Any) -> None:
    result, raised = None, None
    try:
        result = function()
    except CommandError as error:
        raised = error
    sender.send((result, raised))
