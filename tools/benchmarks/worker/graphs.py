"""Work of the measured workers: a graph that signals its response, and an empty task."""

from __future__ import annotations

import fcntl
import time
from typing import Any, TypedDict

from django_q.signals import post_execute

from hitl_django import END, START, StateGraph, interrupt, register
from hitl_django.signals import run_succeeded

from . import signs

GRAPH = "bench-question"
EMPTY, HOLD = f"{__name__}.empty", f"{__name__}.hold"


class Asked(TypedDict, total=False):
    #: Lock file for which the node waits after it receives its response.
    gate: str
    #: Seconds that the node waits after it receives its response.
    waits: float
    answer: Any


@register(GRAPH)
def pending() -> StateGraph:
    """Build a graph that requests one response."""

    def ask(state: Asked) -> Asked:
        answer = interrupt({"question": "Go on?"})
        if "gate" in state:
            hold(state["gate"])
        signs.give("begun", "node")
        if state["waits"]:
            time.sleep(state["waits"])
        return {"answer": answer}

    return StateGraph(Asked).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


def empty(name: str) -> None:
    """Signal that the django-q2 task is running."""
    signs.give("begun", "task")


def hold(gate: str) -> None:
    """Block the worker until no process has locked the file exclusively."""
    with open(gate) as file:
        signs.give("held", gate)
        fcntl.flock(file, fcntl.LOCK_SH)


def _settled(task: dict[str, Any], **kwargs: Any) -> None:
    # The monitor calls this function after the task is done, its result is stored and its message
    # is acknowledged. With the ORM broker, runs have no tasks of their own.
    if task["func"] in (EMPTY, HOLD):
        signs.give("settled", task["args"][0])


post_execute.connect(_settled, dispatch_uid=__name__)


def _ended(run_id: str, **kwargs: Any) -> None:
    signs.give("ended", run_id)
    signs.give("settled", run_id)


run_succeeded.connect(_ended, dispatch_uid=__name__)
