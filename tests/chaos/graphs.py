"""Graphs that verify conservation: each task adds 1 and its id, and writes a mark to a file.

At the end, the sum must equal the number of tasks, and each id must occur once, whatever happened
to the workers. The marks, which no rollback removes, count the calls of each function.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, interrupt, register
from hitl_django.engine.task.node_api import get_runtime
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.types import Send
from hitl_django.graph_registry.registry import DURABILITIES

PATIENCE = 120
#: The events that runs of these graphs store: a custom event for each counted task.
TOLD = ("custom", "updates")


class Effects:
    """Effects of functions outside of the graph: a file of lines that outlive their process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self, word: str, task: str) -> None:
        # A single write of a short line at the end of the file is complete or missing, and remains
        # if the process is killed immediately afterwards.
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(opened, f"{word} {task}\n".encode())
        os.close(opened)

    def begun(self) -> list[str]:
        return self._marked("begun")

    def done(self) -> list[str]:
        return self._marked("done")

    def wait_for_more(self) -> None:
        done, deadline = len(self.done()), time.monotonic() + PATIENCE
        while len(self.done()) <= done:
            assert time.monotonic() < deadline, "the workers make no progress"
            threading.Event().wait(0.01)

    def _marked(self, wanted: str) -> list[str]:
        if not self.path.exists():
            return []
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [task for word, task in lines if word == wanted]


class Recording:
    """The file for marks of this process, and a function that is called for each mark."""

    effects: Effects | None = None
    at_begin: Callable[[str], None] | None = None


class State(TypedDict, total=False):
    total: Annotated[int, operator.add]
    tasks: Annotated[list[str], operator.add]
    answers: Annotated[list[Any], operator.add]


EMPTY: State = {"total": 0, "tasks": [], "answers": []}


def in_all_modes(name: str) -> Callable[[Any], Any]:
    """Return a decorator that registers a graph once per durability, which is appended to its
    name.
    """

    def decorate(factory: Any) -> Any:
        for mode in DURABILITIES:
            register(in_mode(name, mode), events=TOLD, durability=mode)(factory)
        return factory

    return decorate


def in_mode(name: str, mode: str) -> str:
    return name if mode == "sync" else f"{name} {mode}"


def work(name: str, *pending_interrupts: str) -> Callable[[Any], Any]:

    def run(state: Any) -> Any:
        return counted(get_runtime(), name, *pending_interrupts)

    return run


def counted(runtime: Runtime[Any], name: str, *pending_interrupts: str) -> State:
    assert runtime.execution_info is not None
    task = runtime.execution_info.task_id
    if Recording.effects is not None:
        Recording.effects.mark("begun", task)
    if Recording.at_begin is not None:
        Recording.at_begin(name)
    answers = [(payload, interrupt(payload)) for payload in pending_interrupts]
    if Recording.effects is not None:
        Recording.effects.mark("done", task)
    runtime.stream_writer({"task": task})
    return {"total": 1, "tasks": [task], "answers": answers}


@in_all_modes("chaos line")
def line() -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("a", work("a")).add_node("b", work("b", "b?")).add_node("c", work("c"))
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)


@in_all_modes("chaos fan")
def fan() -> StateGraph:
    """Build a graph with three concurrent nodes, two of which interrupt, and a node after them."""
    graph = StateGraph(State).add_node("a", work("a"))
    asking = {"left": ["left?"], "middle": [], "right": ["right?"]}
    for name, pending_interrupts in asking.items():
        graph.add_node(name, work(name, *pending_interrupts)).add_edge("a", name)
    graph.add_node("z", work("z")).add_edge([*asking], "z")
    return graph.add_edge(START, "a").add_edge("z", END)


@in_all_modes("chaos nested")
def nested() -> StateGraph:
    """Build a graph whose subgraph interrupts."""
    inner = StateGraph(State).add_node("x", work("x")).add_node("y", work("y", "y?"))
    called = inner.add_edge(START, "x").add_edge("x", "y").add_edge("y", END).compile()

    def sub(state: Any) -> Any:
        return called.invoke(EMPTY)

    graph = StateGraph(State).add_node("p", work("p")).add_node("sub", sub)
    graph.add_node("q", work("q"))
    return graph.add_edge(START, "p").add_edge("p", "sub").add_edge("sub", "q").add_edge("q", END)


@in_all_modes("chaos sends")
def sends() -> StateGraph:
    """Build a graph that sends three tasks, each of which interrupts."""

    def worker(which: Any) -> Any:
        return counted(get_runtime(), "w", f"{which}?")

    graph = StateGraph(State).add_node("a", work("a")).add_node("w", worker)
    graph.add_conditional_edges("a", lambda state: [Send("w", f"w{i}") for i in range(3)], ["w"])
    graph.add_node("z", work("z")).add_edge("w", "z")
    return graph.add_edge(START, "a").add_edge("z", END)


@in_all_modes("chaos panel")
def panel() -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("left", work("left", "left?", "and left?")).add_edge(START, "left")
    graph.add_node("right", work("right", "right?")).add_edge(START, "right")
    return graph.add_node("z", work("z")).add_edge(["left", "right"], "z").add_edge("z", END)


#: The final result of each graph: its number of tasks, and the interrupts with a response.
SHAPES: dict[str, tuple[int, list[str]]] = {
    "chaos line": (3, ["b?"]),
    "chaos fan": (5, ["left?", "right?"]),
    "chaos nested": (4, ["y?"]),
    "chaos sends": (5, ["w0?", "w1?", "w2?"]),
}
#: The same graphs with each durability.
EVERY_SHAPE = [in_mode(shape, mode) for shape in SHAPES for mode in DURABILITIES]
#: The same graphs, and a graph that is only simulated, where a thousand repetitions cost little.
SIMULATED = {**SHAPES, "chaos panel": (3, ["left?", "and left?", "right?"])}


def end_of(shape: str) -> tuple[int, list[tuple[str, str]]]:
    count, asked = SIMULATED[" ".join(shape.split()[:2])]
    return count, [(payload, reply(payload)) for payload in asked]


def reply(payload: str) -> str:
    return f"re {payload}"
