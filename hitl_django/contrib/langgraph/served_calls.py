"""Saver calls of other threads, made on the one that has the connections."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any


class ServedCalls:
    """Calls that other threads ask for, made by ``perform`` on the thread that serves them."""

    def __init__(self, perform: Callable[..., Any]) -> None:
        self._perform = perform
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Has the serving thread make a call; returns its result to come."""
        answer: Future[Any] = Future()
        self._inbox.put(partial(_settle, answer, self._perform, function, *args))
        return answer

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Has the serving thread make a call; returns its result."""
        return self.submit(function, *args).result()

    def serve(self, work: Callable[[], Any]) -> Any:
        """Does the work on a thread, and meanwhile what it asks; returns its result."""
        done: Future[Any] = Future()
        variables = contextvars.copy_context()

        def run() -> None:
            _settle(done, variables.run, work)
            self._inbox.put(None)

        threading.Thread(target=run, name="hitl-langgraph").start()
        while (make := self._inbox.get()) is not None:
            make()
        return done.result()


def _settle(future: Future[Any], function: Callable[..., Any], *args: Any) -> None:
    """Makes a call; what comes of it is the future's."""
    try:
        future.set_result(function(*args))
    except BaseException as error:
        future.set_exception(error)
