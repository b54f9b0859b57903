"""Calls that one OS thread executes for others: no OS thread waits forever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django.contrib.langgraph.cross_thread_calls import CrossThreadCalls


def call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def test_call_sent_to_another_os_thread_runs_there_and_returns_its_result() -> None:
    calls, here = CrossThreadCalls(call), threading.get_ident()

    def work() -> tuple[int, str]:
        with pytest.raises(ZeroDivisionError):
            calls.ask(lambda: 1 / 0)
        return calls.ask(threading.get_ident), threading.current_thread().name

    assert calls.serve(work) == (here, "hitl-langgraph")


def test_call_sent_to_ended_os_thread_raises_runtime_error() -> None:
    calls, has_left = CrossThreadCalls(call), threading.Event()
    told: list[BaseException | None] = []
    workers: list[threading.Thread] = []

    def end(*about: Any) -> None:
        raise SystemExit

    def work() -> None:
        workers.append(threading.current_thread())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert has_left.wait(60)
        told.append(calls.submit(int).exception(timeout=60))

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(SystemExit):
            calls.serve(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    has_left.set()
    workers[0].join(60)
    assert [str(error) for error in told] == [
        "The thread that owns the database connections has ended."
    ]


def test_call_to_another_os_thread_cancelled_before_start_does_not_block_later_calls() -> None:
    """A cancelled task of an event loop also cancels the call for which the task waits."""
    calls = CrossThreadCalls(call)
    made: list[str] = []

    def work() -> Any:
        may_go_on = threading.Event()
        calls.submit(may_go_on.wait, 60)
        assert calls.submit(made.append, "cancelled").cancel()
        may_go_on.set()
        return calls.ask(int, "7")

    assert calls.serve(work) == 7
    assert made == []
