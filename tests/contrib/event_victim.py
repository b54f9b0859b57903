"""Processes that execute LangGraph graphs with custom events until they are killed."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, Any
from uuid import uuid4

from django.db import connection
from django.utils import timezone
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.config import get_stream_writer
from langgraph.errors import NodeError
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from typing_extensions import TypedDict

from hitl_django import decide, services
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.worker import runner

from . import agent_victim
from .test_message_events import Speaker

MODES = ("values", "updates", "custom", "messages", "tasks", "checkpoints")
PIECES = ["one ", "two ", "three"]


class Teller(Speaker):
    """Model that streams words as one message."""

    def _stream(self, *args: Any, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
        said = str(uuid4())
        for piece in self.pieces:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece, id=said))
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def say(name: str, *, asks: bool = False) -> Any:
    """Return a node that emits custom events before and after a model streams.

    Each event contains the task's name as ``@name``.
    """

    def node(state: Any) -> Talk:
        task, write = f"@{name}{state.get('number', '')}", get_stream_writer()
        write({"task": task, "part": 1})
        answer = interrupt({"title": f"Go on with {task}?"}) if asks else ""
        text = Teller(pieces=PIECES).invoke("speak").text
        write({"task": task, "part": 2})
        return {"said": [f"{task} says {text}{answer}"]}

    return node


def build_talk(*, asks: bool = False, awaited: bool = False) -> Any:
    """Return a graph with two concurrent nodes, which may interrupt, and Sends."""
    graph = StateGraph(Talk)
    for name in ("first", "left", "right"):
        graph.add_node(name, say(name, asks=asks and name != "first"))
    graph.add_node("sent", say("sent"))
    if awaited:
        graph.add_node("last", _awaited(say("last")))
    else:
        graph.add_node("last", say("last"))
    graph.add_node("gather", lambda state: {"said": ["@gather"]})
    graph.add_edge(START, "first").add_edge("first", "left").add_edge("first", "right")
    graph.add_edge(["left", "right"], "gather")
    graph.add_conditional_edges("gather", _send_two, ["sent"])
    return graph.add_edge("sent", "last").add_edge("last", END).compile()


def _send_two(state: Any) -> list[Send]:
    return [Send("sent", {"number": 1}), Send("sent", {"number": 2})]


def _awaited(node: Callable[[Any], Talk]) -> Any:
    async def wait(state: Any) -> Talk:
        return node(state)

    return wait


def build_nested(*, asks: bool = False, awaited: bool = False) -> Any:
    """Return a graph with a subgraph as a node."""
    below = StateGraph(Talk).add_node("inner", say("inner", asks=asks))
    then = say("then")
    below.add_node("then", _awaited(then) if awaited else then)
    below.add_edge(START, "inner").add_edge("inner", "then")
    graph = StateGraph(Talk).add_node("first", say("first")).add_node("below", below.compile())
    graph.add_node("last", say("last")).add_edge(START, "first").add_edge("first", "below")
    return graph.add_edge("below", "last").compile()


def build_unsaved() -> Any:
    """Return a graph with a node that calls a graph without stored state."""

    def tell(state: Talk) -> Talk:
        get_stream_writer()({"node": "inner"})
        return {"said": ["inner"]}

    below = StateGraph(Talk).add_node("inner", tell).add_edge(START, "inner")
    unsaved = below.compile(checkpointer=False)

    def call(state: Talk) -> Talk:
        get_stream_writer()({"node": "call"})
        return {"said": unsaved.invoke({"said": []})["said"]}

    graph = StateGraph(Talk).add_node("call", call).add_node("last", tell)
    return graph.add_edge(START, "call").add_edge("call", "last").compile()


def build_stopping() -> Any:
    """Return a graph with breakpoints before and after nodes."""
    graph = StateGraph(Talk)
    for name in ("a", "b", "c"):
        graph.add_node(name, say(name))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    return graph.compile(interrupt_before=["b"], interrupt_after=["b"])


def build_functional() -> Any:
    """Return a functional graph with two concurrent tasks, one of which interrupts."""
    parts: dict[str, Any] = {
        name: task(name=name)(say(name, asks=name == "y")) for name in ("x", "y", "z")
    }

    @entrypoint()
    def sell(given: dict[str, Any]) -> dict[str, Any]:
        both = [parts["x"]({}), parts["y"]({})]
        said = [one.result()["said"] for one in both]
        return {"said": [*said, parts["z"]({}).result()["said"]]}

    return sell


def build_cached(*, awaited: bool = False) -> Any:
    """Return a graph with Sends to a node, all but the first of whose results are cached."""
    last = say("last")
    graph = StateGraph(Talk).add_node("first", say("first"))
    graph.add_node("last", _awaited(last) if awaited else last)
    known = CachePolicy(key_func=_find_key)
    graph.add_node("sent", say("sent"), cache_policy=known)
    sends = [Send("sent", {"number": number}) for number in (1, 2, 3)]
    graph.add_edge(START, "first").add_conditional_edges("first", lambda state: sends, ["sent"])
    return _warm(graph.add_edge("sent", "last").compile(cache=InMemoryCache()), {"said": []})


def _find_key(given: Any) -> str:
    """Return the cache key.

    All results except the first are cached.
    """
    return str(uuid4() if given.get("number", 1) == 1 else given["number"])


def build_cached_call() -> Any:
    """Return a functional graph that calls a task, all but the first of whose results are
    cached.
    """
    known: Any = CachePolicy(key_func=_find_key)
    sent: Any = task(name="sent", cache_policy=known)(say("sent"))
    asking: Any = task(name="asking")(say("asking", asks=True))

    @entrypoint(cache=InMemoryCache())
    def sell(given: dict[str, Any]) -> dict[str, Any]:
        both: Any = [sent({"number": number}) for number in (1, 2, 3)]
        said = [one.result()["said"] for one in both]
        return {"said": [*said, asking({}).result()["said"] if given["asks"] else []]}

    return _warm(sell, {"asks": False})


def _warm(graph: Any, given: Any) -> Any:
    """Return a graph after a run that fills the cache of this process."""
    asyncio.run(graph.ainvoke(given))
    return graph


def build_failing() -> Any:
    """Return a graph with a node that is retried, parallel to a node whose failure is handled."""
    tries: Counter[str] = Counter()

    def stumble(state: Talk, config: RunnableConfig) -> Talk:
        run = str(config["configurable"]["thread_id"])
        tries[run] += 1
        get_stream_writer()({"task": "@left", "part": 0})
        if tries[run] == 1:
            raise ConnectionError("once")
        return say("left")(state)

    def fail(state: Talk) -> Talk:
        said = say("right")(state)["said"]
        raise ValueError(f"{said[0]} and fails")

    def handle(state: Talk, error: NodeError) -> Talk:
        return say("handler")(state)

    graph = StateGraph(Talk).add_node("first", say("first")).add_node("last", say("last"))
    again = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)
    graph.add_node("left", stumble, retry_policy=again)
    graph.add_node("right", fail, error_handler=handle)
    graph.add_edge(START, "first").add_edge("first", "left").add_edge("first", "right")
    return graph.add_edge(["left", "right"], "last").compile()


def build_persistent(*, asks: bool = True) -> Any:
    """Return a graph that calls a subgraph twice, which continues from its stored state."""
    below = StateGraph(Talk).add_node("inner", say("inner", asks=asks))
    below.add_node("then", say("then")).add_edge(START, "inner").add_edge("inner", "then")
    kept = below.compile(checkpointer=True)

    def call(state: Talk) -> Talk:
        return {"said": ["@call", *kept.invoke({"said": [f"@given {len(state['said'])}"]})["said"]]}

    graph = StateGraph(Talk).add_node("call", call).add_node("between", say("between"))
    graph.add_node("last", say("last")).add_edge(START, "call")
    graph.add_conditional_edges(
        "call", lambda state: "last" if state["said"].count("@call") > 1 else "between",
        ["between", "last"],
    )  # fmt: skip
    return graph.add_edge("between", "call").compile()


def build_broken() -> Any:
    """Return a graph with a subgraph, one of whose nodes fails permanently."""

    def fail(state: Talk) -> Talk:
        raise ValueError(say("broken")(state)["said"][0])

    below = StateGraph(Talk).add_node("inner", say("inner")).add_node("broken", fail)
    below.add_edge(START, "inner").add_edge("inner", "broken")
    graph = StateGraph(Talk).add_node("first", say("first")).add_node("below", below.compile())
    return graph.add_edge(START, "first").add_edge("first", "below").compile()


def build_leaving() -> Any:
    """Return a graph with a subgraph, from which a node jumps to a node of the parent graph."""

    def leave(state: Talk) -> Command[str]:
        return Command(graph=Command.PARENT, goto="last", update=say("leaving")(state))

    below = StateGraph(Talk).add_node("inner", say("inner")).add_node("leave", leave)
    below.add_edge(START, "inner").add_edge("inner", "leave")
    graph = StateGraph(Talk).add_node("first", say("first")).add_node("below", below.compile())
    graph.add_node("last", say("last")).add_edge(START, "first").add_edge("first", "below")
    return graph.compile()


GRAPHS: dict[str, Callable[[], Any]] = {
    "telling_asking": lambda: build_talk(asks=True),
    "telling_nested_asking": lambda: build_nested(asks=True),
    "telling_async": lambda: build_talk(asks=True),
    "telling_async_nested": lambda: build_nested(asks=True),
    "telling_async_awaited": lambda: build_talk(asks=True, awaited=True),
    "telling_exit": lambda: build_talk(asks=True),
    "telling_exit_nested": lambda: build_nested(asks=True),
    "telling_plain": build_talk,
    "telling_awaited": lambda: build_talk(asks=True, awaited=True),
    "telling_nested": build_nested,
    "telling_nested_awaited": lambda: build_nested(asks=True, awaited=True),
    "telling_stopping": build_stopping,
    "telling_functional": build_functional,
    "telling_cached": build_cached,
    "telling_cached_awaited": lambda: build_cached(awaited=True),
    "telling_cached_call": build_cached_call,
    "telling_failing": build_failing,
    "telling_persistent": build_persistent,
    "telling_leaving": build_leaving,
}
#: Graphs without tests that kill processes.
OTHERS: dict[str, Callable[[], Any]] = {
    "telling_async_persistent": lambda: build_persistent(asks=False),
    "telling_exit_persistent": lambda: build_persistent(asks=False),
    "telling_persistent_calls": lambda: build_persistent(asks=False),
    # With "sync", LangGraph doesn't run a subgraph that stores nothing.
    "telling_async_unsaved": build_unsaved,
    "telling_broken": build_broken,
    "telling_async_broken": build_broken,
    "telling_exit_broken": build_broken,
}


def register_graphs() -> None:
    """Register the graphs.

    Each chunk of a message is stored immediately.
    """
    message_buffer.SECONDS = 0
    for name, build in {**GRAPHS, **OTHERS}.items():
        _, _, named = name.partition("_")
        durability = next((one for one in ("async", "exit") if named.startswith(one)), "sync")
        register_langgraph(name, events=(*MODES, "subgraphs"), durability=durability)(build)


def answer(run: Any) -> int:
    """Respond to one pending interrupt, because the interrupts of a step are decided one by one."""
    asked = Interrupt.objects.filter(status="pending", run=run, run__state__in=Run.ANSWERABLE)
    for pending in sorted(asked, key=lambda one: str(one.payload))[:1]:
        if pending.kind == Interrupt.Kind.BREAKPOINT:
            decide(pending.pk, "approve", key="the reviewer's")
        else:
            decide(pending.pk, "respond", "yes", key="the reviewer's")
        return 1
    return 0


def start(graph: str, key: str) -> Any:
    """Start a run, and return its id."""
    given: dict[str, Any] = {"asks": True} if graph == "telling_cached_call" else {"said": []}
    return services.start(graph, given, key=key).id


def live(graph: str, key: str) -> None:
    """Start a run, and work and respond until the run has ended."""
    go_on(start(graph, key))


def go_on(run: Any) -> None:
    runner.advance(str(run))
    while answer(run):
        runner.advance(str(run))


def die_everywhere(graph: str, told: Any) -> None:
    """Kill one process after the other after each commit, and report their number."""
    register_graphs()

    def begin(number: int) -> None:
        agent_victim.kill_at_commit(number, str(number), after=True)
        live(graph, str(number))

    told.send(agent_victim.count_children(begin))


def die_again_and_again(graph: str, told: Any) -> None:
    """Kill each worker of a run after its fifth commit, and report their number."""
    register_graphs()
    run = start(graph, "killed")

    def begin(number: int) -> None:
        Thread.objects.update(lease_until=timezone.now() - timedelta(hours=1))
        agent_victim.kill_at_commit(5, "killed", after=True)
        go_on(run)

    connection.close()
    told.send(agent_victim.count_children(begin))
