"""Calls in a forked process, whose imports use no memory in this process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.core.management.base import CommandError

from hitl_django.worker.child_process import can_fork

Result = TypeVar("Result")


def call_in_fork(function: Callable[[], Result]) -> Result:
    """Call a function in a forked process, and return its result or raise its CommandError.

    The result is pickled. If this process can't fork (``can_fork``), the function is called in this
    process.

    Raises:
        CommandError: as raised by the function, or if the forked process ends without a result.
    """
    if not can_fork():
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


def _send_result(function: Callable[[], Any], sender: Any) -> None:
    result, raised = None, None
    try:
        result = function()
    except CommandError as error:
        raised = error
    sender.send((result, raised))
