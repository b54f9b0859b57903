"""The future returned by a call of a @task function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

AnyFuture = Future[Any] | asyncio.Future[Any]


class CallFuture(Future[Any]):
    """The result of a @task call on another OS thread, for sync code.

    If no OS thread has started the task when the caller asks for the result, the caller runs the
    task itself. Nested tasks can therefore not block each other by using up the OS threads.
    """

    def __init__(self, work: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._work = [] if work is None else [work]

    def run(self) -> None:
        """Run the task, unless another OS thread has already started it."""
        try:
            work = self._work.pop()
        except IndexError:
            return
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the task, and return its result or raise its error."""
        if timeout is None:
            self.run()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the task, and return its error or None."""
        if timeout is None:
            self.run()
        return super().exception(timeout)


def get_running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop of this OS thread, or None if no loop is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def resolve_future(result: Any, on_loop: asyncio.AbstractEventLoop | None) -> AnyFuture:
    """Return a completed future with the value ``result``.

    The future belongs to the event loop ``on_loop``. If ``on_loop`` is None, the future is a
    CallFuture.
    """
    future: AnyFuture = CallFuture() if on_loop is None else on_loop.create_future()
    future.set_result(result)
    return future
