"""Conversion of a LangGraph graph's interrupts to interrupts of the calling node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph.errors import GraphInterrupt as ForeignPause

from hitl_django.engine.errors import GraphInterrupt
from hitl_django.engine.task.node_api import interrupt


def ask_all(pending_interrupts: Iterable[Any]) -> dict[str, Any]:
    """Create the graph's interrupts in the calling node, and return the responses by interrupt id.

    If an interrupt has no response, the node pauses.
    """
    answers: dict[str, Any] = {}
    pause: BaseException | None = None
    for one in pending_interrupts:
        try:
            answers[one.id] = interrupt(one.value, key=one.id, response_schema=one.response_schema)
        except (GraphInterrupt, ForeignPause) as error:
            pause = error
    if pause is not None:
        raise pause
    return answers
