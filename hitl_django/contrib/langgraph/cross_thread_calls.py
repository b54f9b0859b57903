"""Saver calls of other OS threads, executed on the OS thread with the database connections."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple


class _Call(NamedTuple):
    answer: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]


class CrossThreadCalls:
    """Queue of saver calls.

    Other OS threads submit calls. The OS thread with the database connections executes them.
    """

    def __init__(self, perform: Callable[..., Any]) -> None:
        self._perform = perform
        self._inbox: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_left = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a call to the OS thread with the connections, and return a future."""
        call = _Call(Future(), function, args)
        with self._lock:
            if self._is_left:
                _refuse(call)
            else:
                self._inbox.put(call)
        return call.answer

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Execute a call on the OS thread with the connections, and return its result."""
        return self.submit(function, *args).result()

    def serve(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` on a new OS thread, and return its result.

        While ``work`` runs, the calling OS thread executes the submitted calls.
        """
        done: Future[Any] = Future()
        variables = contextvars.copy_context()

        def run() -> None:
            _settle(done, variables.run, work)
            self._inbox.put(None)

        try:
            threading.Thread(target=run, name="hitl-langgraph").start()
            while (call := self._inbox.get()) is not None:
                _settle(call.answer, self._perform, call.function, *call.args)
        except BaseException:
            # A signal ends this process. OS threads that wait for a result would prevent the exit.
            self._leave()
            raise
        return done.result()

    def _leave(self) -> None:
        with self._lock:
            self._is_left = True
        while not self._inbox.empty():
            if (call := self._inbox.get()) is not None:
                _refuse(call)


def _refuse(call: _Call) -> None:
    if call.answer.set_running_or_notify_cancel():
        error = RuntimeError("The thread that owns the database connections has ended.")
        call.answer.set_exception(error)


def _settle(future: Future[Any], function: Callable[..., Any], *args: Any) -> None:
    """Execute a submitted call and set the result of its future, unless the call was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function(*args))
    except BaseException as error:
        future.set_exception(error)
