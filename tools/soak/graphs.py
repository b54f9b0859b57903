"""The graph of the soak test, in several versions."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, interrupt, register
from hitl_django.engine.task.node_api import get_runtime

#: Versions of the graph. "" is the default. "more" has an additional node, and paused threads can
#: resume. In "renamed", the interrupting node has another name, so paused threads can't resume.
VERSIONS = ("", "more", "renamed")
DEPLOYED = os.environ.get("SOAK_DEPLOYED", "")
BOOK = os.environ.get("SOAK_BOOK", "")


class State(TypedDict, total=False):
    """The state of the graph.

    ``asks`` is the number of remaining interrupts.
    """

    asks: int
    total: Annotated[int, operator.add]
    tasks: Annotated[list[str], operator.add]
    answers: Annotated[list[int], operator.add]


def counted(**more: Any) -> dict[str, Any]:
    info = get_runtime().execution_info
    assert info is not None
    return {"total": 1, "tasks": [info.task_id], **more}


def work(seconds: float) -> Callable[[State], Any]:
    def run(state: State) -> Any:
        time.sleep(seconds)  # Simulates waiting for an external service.
        return counted()

    return run


def ask(state: State) -> Any:
    """Interrupt, and log the times of the decision and of the resumption."""
    number = len(state.get("answers", []))
    answer = interrupt({"title": f"Question {number}"})
    note(answer["at"], time.time())
    return counted(asks=state["asks"] - 1, answers=[number])


def note(*times: float) -> None:
    """Append a line with times to the log, atomically."""
    opened = os.open(BOOK, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with suppress(OSError):  # The disk is full.
        os.write(opened, (" ".join(f"{each:.3f}" for each in times) + "\n").encode())
    os.close(opened)


@register("soak", version=DEPLOYED or "base")
def soak() -> StateGraph:
    """Build the graph: open, two concurrent checks, the requested number of interrupts, close."""
    asking = "inquire" if DEPLOYED == "renamed" else "ask"

    def way(state: State) -> str:
        return asking if state["asks"] else "close"

    graph = StateGraph(State).add_node("open", work(0.02)).add_edge(START, "open")
    for name in ("left", "right"):
        graph.add_node(name, work(0.2)).add_edge("open", name)
    graph.add_node("check", work(0.02)).add_edge(["left", "right"], "check")
    graph.add_node(asking, ask).add_node("close", work(0.02))
    for name in ("check", asking):
        graph.add_conditional_edges(name, way, [asking, "close"])
    if DEPLOYED == "more":
        graph.add_node("thank", work(0)).add_edge("close", "thank").add_edge("thank", END)
    else:
        graph.add_edge("close", END)
    return graph
