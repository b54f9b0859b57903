"""The workloads: functions of the names that both engines have.

A workload builds a graph of size ``n`` and returns a function. Each call of this function does the
work once and returns the number of units. The function also checks the result, so that both engines
do the same work.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from .engines import LANGGRAPH

Once = Callable[[], int]

WIDTH = 300  # Number of keys in wide states.
THREADS = 20  # Number of threads per run of the workload with pauses.


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table.

    ``size`` is the n of the row, ``growth`` the sizes for fitting the slope. ``unit`` names the
    unit of the work. ``target`` is the minimum ratio of LangGraph's time to ours. If ``against`` is
    the floor, it is the maximum ratio of our time to that of the same rows with handwritten
    statements. With ``floor``, the statements, saver calls or nodes alone are also measured. If the
    target is below the floor, our time may be ``allowance`` times the floor.
    """

    name: str
    title: str
    build: Callable[[Any, int], Once]
    size: int
    unit: str
    target: float
    growth: tuple[int, ...] = (10, 100, 1000)
    store: str = ""  # Database of durable work: "sqlite" or "postgres".
    against: str = LANGGRAPH
    floor: bool = False
    allowance: float = 1.3


# The database outlives the process, so thread ids contain an id of the process.
_process = uuid4().hex[:12]
_threads = itertools.count()


def on_thread(limit: int) -> dict[str, Any]:
    """Return the config of a new thread."""
    return {
        "configurable": {"thread_id": f"{_process}-{next(_threads)}"},
        "recursion_limit": limit + 10,
    }


def check(found: Any, expected: Any) -> None:
    """Raise an error if the result of an engine is wrong."""
    if found != expected:
        raise AssertionError(f"The result is {str(found)[:100]}, not {str(expected)[:100]}.")


@functools.cache
def _runner() -> asyncio.Runner:
    """Return a runner that keeps one event loop and its OS threads, like a server does."""
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


# Nodes that run one after the other.


class Count(TypedDict):
    count: int
    note: str


def _add_one(state: Count) -> dict[str, Any]:
    return {"count": state["count"] + 1}


def chain(e: Any, n: int, node: Callable[..., Any] = _add_one, state: Any = Count) -> Any:
    """Return the builder of a graph with ``n`` sequential nodes."""
    graph = e.StateGraph(state)
    before = e.START
    for at in range(n):
        graph.add_node(f"node{at}", node)
        graph.add_edge(before, f"node{at}")
        before = f"node{at}"
    graph.add_edge(before, e.END)
    return graph


def sequential_tokens(e: Any, n: int) -> Once:
    """Stream model tokens from nodes that don't call a model."""
    graph = chain(e, n).compile()

    def once() -> int:
        modes = ["updates", "messages"]
        chunks = graph.stream({"count": 0, "note": "x"}, on_thread(n), stream_mode=modes)
        check(sum(1 for _ in chunks), n)
        return n

    return once


def sequential_saved(e: Any, n: int, saver: Any = None, durability: str = "sync") -> Once:
    graph = chain(e, n).compile(checkpointer=saver or e.InMemorySaver())

    def once() -> int:
        start = {"count": 0, "note": "x"}
        check(graph.invoke(start, on_thread(n), durability=durability)["count"], n)
        return n

    return once


def compiling(e: Any, n: int) -> Once:
    def once() -> int:
        chain(e, n).compile()
        return n

    return once


# Many concurrent tasks.


class Fan(TypedDict):
    items: list[int]
    done: Annotated[list[int], operator.add]


class Item(TypedDict):
    item: int


def _fan(e: Any, n: int, saver: Any, work: Callable[[Any], Any], is_async: bool = False) -> Once:
    def spread(state: Fan) -> list[Any]:
        return [e.Send("work", {"item": item}) for item in state["items"]]

    graph = e.StateGraph(Fan)
    graph.add_node("work", work)
    graph.add_conditional_edges(e.START, spread, ["work"])
    graph.add_edge("work", e.END)
    app = graph.compile(checkpointer=saver)
    start = {"items": list(range(n)), "done": []}
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        if is_async:
            result = _runner().run(app.ainvoke(start, on_thread(n), **options))
        else:
            result = app.invoke(start, on_thread(n), **options)
        check(len(result["done"]), n)
        return n

    return once


def _double(state: Item) -> dict[str, Any]:
    return {"done": [state["item"] * 2]}


async def _double_async(state: Item) -> dict[str, Any]:
    return {"done": [state["item"] * 2]}


def fan_out(e: Any, n: int) -> Once:
    return _fan(e, n, None, _double)


def fan_out_async(e: Any, n: int) -> Once:
    return _fan(e, n, None, _double_async, is_async=True)


def fan_out_saved(e: Any, n: int) -> Once:
    return _fan(e, n, e.InMemorySaver(), _double)


# Wide states.


Wide = TypedDict("Wide", {f"key{at}": str for at in range(WIDTH)})  # type: ignore[misc]


def wide_state(e: Any, n: int, saver: Any) -> Once:
    """Change one of many state keys in each of n nodes."""

    def node(at: int) -> Callable[[Any], Any]:
        key = f"key{at % WIDTH}"
        return lambda state: {key: f"{len(state)} changed"}

    graph = e.StateGraph(Wide)
    before = e.START
    for at in range(n):
        graph.add_node(f"node{at}", node(at))
        graph.add_edge(before, f"node{at}")
        before = f"node{at}"
    graph.add_edge(before, e.END)
    app = graph.compile(checkpointer=saver)
    start = {f"key{at}": f"the value of key {at}" for at in range(WIDTH)}
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        check(app.invoke(start, on_thread(n), **options)["key0"], f"{WIDTH} changed")
        return n

    return once


def pydantic_state(e: Any, n: int) -> Once:
    from pydantic import BaseModel

    class Model(BaseModel):
        count: int
        note: str = "x"
        tags: list[str] = []

    def step(state: Any) -> dict[str, Any]:
        return {"count": state.count + 1}

    app = chain(e, n, step, Model).compile()

    def once() -> int:
        check(app.invoke({"count": 0, "tags": ["a", "b"]}, on_thread(n))["count"], n)
        return n

    return once


# Interrupts.


def three_nodes(e: Any) -> Any:
    """Return the builder of a graph with three nodes.

    The second node interrupts.
    """

    def ask(state: Count) -> dict[str, Any]:
        answer = e.interrupt({"question": "Go on?", "count": state["count"]})
        return {"count": state["count"] + 1, "note": answer}

    graph = e.StateGraph(Count)
    for name, node in (("first", _add_one), ("ask", ask), ("last", _add_one)):
        graph.add_node(name, node)
    for pair in ((e.START, "first"), ("first", "ask"), ("ask", "last"), ("last", e.END)):
        graph.add_edge(*pair)
    return graph


def pause_and_resume(e: Any, n: int, saver: Any = None, durability: str = "sync") -> Once:
    """Run n threads with three nodes to an interrupt, and from the response to the end."""
    app = three_nodes(e).compile(checkpointer=saver or e.InMemorySaver())

    def once() -> int:
        for _ in range(n):
            config = on_thread(3)
            paused = app.invoke({"count": 0, "note": "x"}, config, durability=durability)
            check(len(paused["__interrupt__"]), 1)
            result = app.invoke(e.Command(resume="yes"), config, durability=durability)
            check(result, {"count": 3, "note": "yes"})
        return n

    return once


def many_threads(e: Any, n: int, saver: Any = None) -> Once:
    """Run n threads to their interrupts. Then run all threads from their responses to the end."""
    app = three_nodes(e).compile(checkpointer=saver or e.InMemorySaver())

    def once() -> int:
        threads = [on_thread(3) for _ in range(n)]
        for config in threads:
            paused = app.invoke({"count": 0, "note": "x"}, config, durability="sync")
            check(len(paused["__interrupt__"]), 1)
        for config in threads:
            result = app.invoke(e.Command(resume="yes"), config, durability="sync")
            check(result, {"count": 3, "note": "yes"})
        return n

    return once


def asking_sends(e: Any, n: int, saver: Any = None) -> Once:
    """Create interrupts in n concurrent tasks, and resume all of them with one mapping."""

    def ask(state: Item) -> dict[str, Any]:
        return {"done": [e.interrupt({"item": state["item"]})]}

    def spread(state: Fan) -> list[Any]:
        return [e.Send("work", {"item": item}) for item in state["items"]]

    graph = e.StateGraph(Fan)
    graph.add_node("work", ask)
    graph.add_conditional_edges(e.START, spread, ["work"])
    graph.add_edge("work", e.END)
    app = graph.compile(checkpointer=saver or e.InMemorySaver())

    def once() -> int:
        config = on_thread(n)
        paused = app.invoke({"items": list(range(n)), "done": []}, config, durability="sync")
        answers = {each.id: each.value["item"] * 2 for each in paused["__interrupt__"]}
        check(len(answers), n)
        result = app.invoke(e.Command(resume=answers), config, durability="sync")
        check(result["done"], [item * 2 for item in range(n)])
        return n

    return once


WORKLOADS: dict[str, Workload] = {
    row.name: row
    for row in (
        Workload("tokens", "sequential, updates and model messages streamed, without a model call",
                 sequential_tokens, 1000, "super-step", 5),
        Workload(
            "sequential-memory", "sequential, in-memory saver, durability sync",
            sequential_saved, 1000, "super-step", 20,
        ),
        Workload("fanout", "fan-out to 100", fan_out, 100, "task", 20),
        Workload("fanout-async", "the same, async", fan_out_async, 100, "task", 12),
        Workload(
            "fanout-memory", "fan-out to 100, in-memory saver", fan_out_saved, 100, "task", 20
        ),
        Workload("pydantic", "pydantic state, no saver", pydantic_state, 300, "super-step", 2),
        Workload(
            "pause", "pause and resume, 3 nodes, in memory", pause_and_resume, THREADS, "thread",
            10, growth=(10, 30, 100),
        ),
        Workload(
            "asking", "100 interrupts by Send, one resume map, in memory", asking_sends, 100,
            "interrupt", 10, growth=(10, 30, 100),
        ),
        Workload("compile", "graph compile", compiling, 1000, "node", 5),
    )
}  # fmt: skip
