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
#: What their runs tell: a custom event for each task that counts.
TOLD = ("custom", "updates")


class Effects:
    """What functions did outside of the graph: a file of lines that survive their process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self, word: str, task: str) -> None:
        # One write of one short line at the end of the file: it is there whole or not at all,
        # and stays when the process is killed right after.
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
            assert time.monotonic() < deadline, "the workers get nowhere"
            threading.Event().wait(0.01)

    def _marked(self, wanted: str) -> list[str]:
        if not self.path.exists():
            return []
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [task for word, task in lines if word == wanted]


class Recording:
    """Where the functions of this process leave their marks, and what is called at each."""

    effects: Effects | None = None
    at_begin: Callable[[str], None] | None = None


class State(TypedDict, total=False):
    total: Annotated[int, operator.add]
    tasks: Annotated[list[str], operator.add]
    answers: Annotated[list[Any], operator.add]


EMPTY: State = {"total": 0, "tasks": [], "answers": []}


def in_all_modes(name: str) -> Callable[[Any], Any]:
    """Register a graph once for each durability: under its name, and with that behind it."""

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
    """Three side by side, two of which ask, and one after all of them."""
    graph = StateGraph(State).add_node("a", work("a"))
    asking = {"left": ["left?"], "middle": [], "right": ["right?"]}
    for name, pending_interrupts in asking.items():
        graph.add_node(name, work(name, *pending_interrupts)).add_edge("a", name)
    graph.add_node("z", work("z")).add_edge([*asking], "z")
    return graph.add_edge(START, "a").add_edge("z", END)


@in_all_modes("chaos nested")
def nested() -> StateGraph:
    """A graph within a graph, which pauses."""
    inner = StateGraph(State).add_node("x", work("x")).add_node("y", work("y", "y?"))
    called = inner.add_edge(START, "x").add_edge("x", "y").add_edge("y", END).compile()

    def sub(state: Any) -> Any:
        return called.invoke(EMPTY)

    graph = StateGraph(State).add_node("p", work("p")).add_node("sub", sub)
    graph.add_node("q", work("q"))
    return graph.add_edge(START, "p").add_edge("p", "sub").add_edge("sub", "q").add_edge("q", END)


@in_all_modes("chaos sends")
def sends() -> StateGraph:
    """Three of one kind are sent for, and each asks."""

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


#: What each graph has come to at its end: how many tasks, and who was answered.
SHAPES: dict[str, tuple[int, list[str]]] = {
    "chaos line": (3, ["b?"]),
    "chaos fan": (5, ["left?", "right?"]),
    "chaos nested": (4, ["y?"]),
    "chaos sends": (5, ["w0?", "w1?", "w2?"]),
}
#: The same, stored in each of the ways that there are.
EVERY_SHAPE = [in_mode(shape, mode) for shape in SHAPES for mode in DURABILITIES]
#: And those that are only simulated, where a thousand of each cost little.
SIMULATED = {**SHAPES, "chaos panel": (3, ["left?", "and left?", "right?"])}


def end_of(shape: str) -> tuple[int, list[tuple[str, str]]]:
    count, asked = SIMULATED[" ".join(shape.split()[:2])]
    return count, [(payload, reply(payload)) for payload in asked]


def reply(payload: str) -> str:
    return f"re {payload}"
