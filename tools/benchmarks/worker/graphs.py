"""What the measured workers do: a graph that says when it is answered, and a bare task."""

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
    #: A file; once it has its answer, the node waits until nobody has it to themselves.
    gate: str
    #: Seconds that the node waits for something else once it has its answer.
    waits: float
    answer: Any


@register(GRAPH)
def pending() -> StateGraph:
    """Ask once."""

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
    """Does nothing, as a task of django-q2."""
    signs.give("begun", "task")


def hold(gate: str) -> None:
    """Keep its worker until nobody has the file to themselves any more."""
    with open(gate) as file:
        signs.give("held", gate)
        fcntl.flock(file, fcntl.LOCK_SH)


def _settled(task: dict[str, Any], **kwargs: Any) -> None:
    # Said by the monitor: the task is done, its result is taken in, its message acknowledged.
    # A task without a subject is a sweep that came due meanwhile.
    for subject in task["args"][:1]:
        signs.give("settled", subject)


post_execute.connect(_settled, dispatch_uid=__name__)


def _ended(run_id: str, **kwargs: Any) -> None:
    signs.give("ended", run_id)


run_succeeded.connect(_ended, dispatch_uid=__name__)
