"""Pauses and resumptions reported to handlers among a config's callbacks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hitl_django import Command
from hitl_django.engine.task.callbacks import GraphCallbackHandler

from .graphs import CONFIG, asks, line, saved, says


class Listener(GraphCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_interrupt(self, event: Any) -> None:
        asked = [interrupt.value for interrupt in event.interrupts]
        self.heard.append(("interrupt", event.status, event.run_id, asked))

    def on_resume(self, event: Any) -> None:
        self.heard.append(("resume", event.status, event.run_id, event.checkpoint_id))


class Broken(GraphCallbackHandler):
    def on_interrupt(self, event: Any) -> None:
        raise OSError("nobody listens")


def listening(*handlers: Any) -> dict[str, Any]:
    return {**CONFIG, "callbacks": list(handlers), "run_id": "run"}


@pytest.mark.parametrize("is_async", [False, True])
def test_callback_handler_receives_one_interrupt_event_and_one_resume_event(is_async: bool) -> None:
    graph, listener = saved(line(a=asks("q"))), Listener()

    def call(value: Any) -> None:
        if is_async:
            asyncio.run(graph.ainvoke(value, listening(listener)))
        else:
            graph.invoke(value, listening(listener))

    call({"x": 1})
    stopped_at = graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    call(Command(resume="yes"))
    assert listener.heard == [
        ("interrupt", "pending", "run", ["q"]),
        ("resume", "pending", "run", stopped_at),
    ]


def test_callback_handler_receives_breakpoint_event_with_kind_interrupt_before() -> None:
    listener = Listener()
    saved(line(a=says("a")), interrupt_before=["a"]).invoke({"x": 1}, listening(listener))
    assert listener.heard == [("interrupt", "interrupt_before", "run", [])]


def test_exception_in_callback_handler_is_logged_and_raised_only_with_raise_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = Broken()
    with caplog.at_level(logging.ERROR, "hitl_django"):
        saved(line(a=asks("q"))).invoke({"x": 1}, listening(broken))
    assert "Callback handler Broken failed" in caplog.text
    broken.raise_error = True
    with pytest.raises(OSError, match="nobody listens"):
        saved(line(a=asks("q"))).invoke({"x": 1}, listening(broken))
