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

from .engines import FLOOR, LANGGRAPH

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


async def _add_one_async(state: Count) -> dict[str, Any]:
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


def sequential(e: Any, n: int) -> Once:
    graph = chain(e, n).compile()

    def once() -> int:
        check(graph.invoke({"count": 0, "note": "x"}, on_thread(n))["count"], n)
        return n

    return once


def short(e: Any, n: int) -> Once:
    return _by_hand(n) if e.engine == FLOOR else sequential(e, n)


def _by_hand(n: int) -> Once:
    """Call the nodes without a graph.

    Each node gets a new state.
    """
    nodes = [_add_one] * n

    def once() -> int:
        state: Any = {"count": 0, "note": "x"}
        for node in nodes:
            state = {**state, **node(state)}
        check(state["count"], n)
        return n

    return once


def sequential_async(e: Any, n: int) -> Once:
    graph = chain(e, n, _add_one_async).compile()

    def once() -> int:
        result = _runner().run(graph.ainvoke({"count": 0, "note": "x"}, on_thread(n)))
        check(result["count"], n)
        return n

    return once


def sequential_streamed(e: Any, n: int, mode: str | list[str] = "updates") -> Once:
    graph = chain(e, n).compile()

    def once() -> int:
        chunks = graph.stream({"count": 0, "note": "x"}, on_thread(n), stream_mode=mode)
        check(sum(1 for _ in chunks), n)
        return n

    return once


def sequential_tokens(e: Any, n: int) -> Once:
    """Stream model tokens from nodes that don't call a model."""
    return sequential_streamed(e, n, ["updates", "messages"])


def sequential_saved(e: Any, n: int, saver: Any = None, durability: str = "sync") -> Once:
    graph = chain(e, n).compile(checkpointer=saver or e.InMemorySaver())

    def once() -> int:
        start = {"count": 0, "note": "x"}
        check(graph.invoke(start, on_thread(n), durability=durability)["count"], n)
        return n

    return once


def short_saved(e: Any, n: int) -> Once:
    return _or_its_commits(e, n, sequential_saved)


def _or_its_commits(e: Any, n: int, build: Callable[[Any, int, Any], Once]) -> Once:
    """Return the work with an in-memory saver.

    For the floor, only the saver's calls are made.
    """
    if e.engine != FLOOR:
        return build(e, n, e.InMemorySaver())
    commits: list[Any] = []

    class Recording(e.InMemorySaver):  # type: ignore[misc]
        def commit(self, commit: Any) -> None:
            commits.append(commit)
            super().commit(commit)

    build(e, n, Recording())()
    saver = e.InMemorySaver()

    def once() -> int:
        thread = on_thread(n)["configurable"]["thread_id"]
        for commit in commits:
            commit.config["configurable"]["thread_id"] = thread
            saver.commit(commit)
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


class Inner(TypedDict):
    item: int
    done: Annotated[list[int], operator.add]


def _step(state: Inner) -> dict[str, Any]:
    return {"item": state["item"] + 1}


async def _step_async(state: Inner) -> dict[str, Any]:
    return {"item": state["item"] + 1}


def _end(state: Inner) -> dict[str, Any]:
    return {"done": [state["item"]]}


async def _end_async(state: Inner) -> dict[str, Any]:
    return {"done": [state["item"]]}


def _inner(e: Any, steps: int, is_async: bool = False) -> Any:
    """Return the subgraph that processes one item."""
    inner = chain(e, steps - 1, _step_async if is_async else _step, Inner)
    inner.add_node("last", _end_async if is_async else _end)
    inner.add_edge(f"node{steps - 2}", "last")
    return inner.compile()


def _fan_subgraphs(e: Any, n: int, steps: int, saver: Any = None) -> Once:
    app = _inner(e, steps)

    def work(state: Item) -> dict[str, Any]:
        return {"done": app.invoke({**state, "done": []})["done"]}

    return _fan(e, n, saver, work)


def fan_out_subgraphs(e: Any, n: int) -> Once:
    """Process each item in a subgraph with twelve nodes."""
    return _fan_subgraphs(e, n, 12)


def fan_out_small(e: Any, n: int) -> Once:
    """Process each item in a subgraph with four nodes.

    Starting the subgraph is a larger part of the work.
    """
    return _fan_subgraphs(e, n, 4)


def fan_out_subgraphs_saved(e: Any, n: int) -> Once:
    return _or_its_commits(e, n, lambda e, n, saver: _fan_subgraphs(e, n, 12, saver))


def fan_out_small_saved(e: Any, n: int) -> Once:
    return _or_its_commits(e, n, lambda e, n, saver: _fan_subgraphs(e, n, 4, saver))


def _fan_nodes(e: Any, n: int, saver: Any) -> Once:
    """Use the subgraph of each item directly as the node."""
    return _fan(e, n, saver, _inner(e, 4))


def _fan_nodes_async(e: Any, n: int, saver: Any) -> Once:
    return _fan(e, n, saver, _inner(e, 4, is_async=True), is_async=True)


def fan_out_nodes_saved(e: Any, n: int) -> Once:
    return _or_its_commits(e, n, _fan_nodes)


def fan_out_nodes_saved_async(e: Any, n: int) -> Once:
    return _or_its_commits(e, n, _fan_nodes_async)


# Wide states.


Wide = TypedDict("Wide", {f"key{at}": str for at in range(WIDTH)})  # type: ignore[misc]


class Boxed(TypedDict):
    box: dict[str, str]
    turn: int


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


def wide(e: Any, n: int) -> Once:
    return wide_state(e, n, None)


def wide_saved(e: Any, n: int) -> Once:
    return wide_state(e, n, e.InMemorySaver())


def _wide_dict(e: Any, n: int, saver: Any) -> Once:
    def step(state: Boxed) -> dict[str, Any]:
        turn = state["turn"]
        return {"box": {**state["box"], f"key{turn % WIDTH}": "changed"}, "turn": turn + 1}

    app = chain(e, n, step, Boxed).compile(checkpointer=saver)
    start = {"box": {f"key{at}": f"the value of key {at}" for at in range(WIDTH)}, "turn": 0}
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        check(app.invoke(start, on_thread(n), **options)["turn"], n)
        return n

    return once


def wide_dict(e: Any, n: int) -> Once:
    return _wide_dict(e, n, None)


def wide_dict_saved(e: Any, n: int) -> Once:
    return _wide_dict(e, n, e.InMemorySaver())


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


# Agents with messages.


def react(e: Any, n: int) -> Once:
    """Let a model call a tool n/2 times.

    The messages stay in the state.
    """

    messages = Annotated[list[Any], e.add_messages]
    talk: Any = TypedDict("Talk", {"messages": messages, "turn": int})

    def model(state: Any) -> dict[str, Any]:
        turn = state["turn"] + 1
        text = f"I should look up fact number {turn}, and then say what I found."
        return {"messages": [{"role": "assistant", "content": text}], "turn": turn}

    def tool(state: Any) -> dict[str, Any]:
        turn = state["turn"] + 1
        return {
            "messages": [{"role": "user", "content": f"Fact {turn}: it is so."}],
            "turn": turn,
        }

    graph = e.StateGraph(talk)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(e.START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tool" if state["turn"] < n else e.END, ["tool", e.END]
    )
    graph.add_conditional_edges(
        "tool", lambda state: "model" if state["turn"] < n else e.END, ["model", e.END]
    )
    app = graph.compile(checkpointer=e.InMemorySaver())

    def once() -> int:
        start = {"messages": [{"role": "user", "content": "Tell me."}], "turn": 0}
        check(len(app.invoke(start, on_thread(n), durability="sync")["messages"]), n + 1)
        return n

    return once


def _tool_agent(e: Any, n: int, saver: Any = None) -> Once:
    """Run an agent made of LangChain's parts, with n model calls.

    Each model call except the last has a tool call. The floor is the calls that the nodes make,
    with the messages in a list.
    """
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    @tool
    def search(query: str) -> str:
        """Search."""
        return f"Found for {query}: it is so."

    @tool
    def count(query: str) -> str:
        """Count."""
        return f"There are {len(query)} of {query}."

    class Model(BaseChatModel):
        _llm_type = "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            turn, calls = len(messages) // 2, []
            if turn < n - 1:
                name = ("search", "count")[turn % 2]
                calls = [{"name": name, "args": {"query": f"fact {turn}"}, "id": f"call {turn}"}]
            message = AIMessage(f"Let me look up fact number {turn}.", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

    model, tools = Model(), {"search": search, "count": count}
    if e.engine == FLOOR:
        return functools.partial(_talk, model, tools, n)
    app = e.create_react_agent(model, list(tools.values()), checkpointer=saver)
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        start = {"messages": [("user", "Tell me.")]}
        check(len(app.invoke(start, on_thread(2 * n), **options)["messages"]), 2 * n)
        return n

    return once


def _talk(model: Any, tools: dict[str, Any], n: int) -> int:
    """Run the conversation of the agent without a graph."""
    from langchain_core.messages import HumanMessage

    messages: list[Any] = [HumanMessage("Tell me.")]
    while (message := model.invoke(messages)).tool_calls:
        messages.append(message)
        messages += [tools[call["name"]].invoke(call) for call in message.tool_calls]
    check(len(messages), 2 * n - 1)
    return n


def tool_agent(e: Any, n: int) -> Once:
    return _tool_agent(e, n)


def tool_agent_saved(e: Any, n: int) -> Once:
    return _tool_agent(e, n, e.InMemorySaver())


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
        Workload("sequential", "sequential, no saver", sequential, 1000, "super-step", 20),
        Workload(
            "sequential-async", "the same, async", sequential_async, 1000, "super-step", 12
        ),
        Workload("streamed", "sequential, updates streamed", sequential_streamed, 1000,
                 "super-step", 10),
        Workload("tokens", "the same, with model messages, without a model call",
                 sequential_tokens, 1000, "super-step", 5),
        Workload(
            "sequential-memory", "sequential, in-memory saver, durability sync",
            sequential_saved, 1000, "super-step", 20,
        ),
        Workload("ten", "ten nodes, no saver", short, 10, "super-step", 20,
                 growth=(1, 3, 10), floor=True),
        Workload("ten-async", "the same, async", sequential_async, 10, "super-step", 12,
                 growth=(1, 3, 10)),
        Workload("ten-memory", "ten nodes, in-memory saver", short_saved, 10, "super-step", 20,
                 growth=(1, 3, 10), floor=True),
        Workload("fanout", "fan-out to 100", fan_out, 100, "task", 20),
        Workload("fanout-async", "the same, async", fan_out_async, 100, "task", 12),
        Workload(
            "fanout-memory", "fan-out to 100, in-memory saver", fan_out_saved, 100, "task", 20
        ),
        Workload(
            "fanout-subgraphs", "fan-out to 100 graphs of 12 nodes", fan_out_subgraphs, 100,
            "item", 20, growth=(10, 30, 100),
        ),
        Workload(
            "fanout-small", "fan-out to 100 graphs of 4 nodes", fan_out_small, 100, "item", 20
        ),
        Workload("fanout-subgraphs-memory", "fan-out to 100 graphs of 12 nodes, in-memory saver",
                 fan_out_subgraphs_saved, 100, "item", 15, growth=(10, 30, 100), floor=True),
        Workload("fanout-small-memory", "fan-out to 100 graphs of 4 nodes, in-memory saver",
                 fan_out_small_saved, 100, "item", 15, growth=(10, 30, 100), floor=True),
        Workload("fanout-nodes-memory", "the same, the graph as a node", fan_out_nodes_saved, 100,
                 "item", 15, growth=(10, 30, 100), floor=True),
        Workload("fanout-nodes-memory-async", "the same, async", fan_out_nodes_saved_async, 100,
                 "item", 15, growth=(10, 30, 100), floor=True),
        Workload("wide", "300 keys, no saver", wide, 100, "super-step", 5),
        Workload("wide-memory", "300 keys, in-memory saver", wide_saved, 100, "super-step", 8),
        Workload("dict", "a dict of 300, no saver", wide_dict, 100, "super-step", 5),
        Workload(
            "dict-memory", "a dict of 300, in-memory saver", wide_dict_saved, 100, "super-step", 8
        ),
        Workload("pydantic", "pydantic state, no saver", pydantic_state, 300, "super-step", 2),
        Workload(
            "react", "agent loop with messages, in-memory saver", react, 200, "super-step", 10,
            growth=(20, 60, 200),
        ),
        Workload("agent", "agent with LangChain's model and tools, 10 turns", tool_agent, 10,
                 "turn", 10, growth=(5, 10, 20), floor=True, allowance=2),
        Workload("agent-long", "the same, 200 turns", tool_agent, 200, "turn", 10,
                 growth=(20, 60, 200), floor=True, allowance=2),
        Workload("agent-memory", "the same, 10 turns, in-memory saver", tool_agent_saved, 10,
                 "turn", 10, growth=(5, 10, 20), floor=True, allowance=2),
        Workload("agent-long-memory", "the same, 200 turns, in-memory saver", tool_agent_saved,
                 200, "turn", 10, growth=(20, 60, 200), floor=True, allowance=2),
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
