"""Processes that work for LangGraph's graphs which tell of themselves, until they are killed."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from hitl_django import decide, services
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner

from . import agent_victim
from .test_message_events import Speaker

MODES = ("values", "updates", "custom", "messages", "tasks", "checkpoints")
PIECES = ["one ", "two ", "three"]


class Teller(Speaker):
    """Says its pieces as a message of its own."""

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
    """Returns a node that tells of itself before and after a model has spoken."""

    def node(state: Any) -> Talk:
        write = get_stream_writer()
        write({"node": name, "number": 1})
        answer = interrupt({"title": f"Go on with {name}?"}) if asks else ""
        text = Teller(pieces=PIECES).invoke("speak").text
        write({"node": name, "number": 2})
        return {"said": [f"{name} says {text}{answer}"]}

    return node


def build_talk(*, asks: bool = False, awaited: bool = False) -> Any:
    """Returns a graph with two nodes at once, each of which may ask, and sent tasks."""
    graph = StateGraph(Talk)
    for name in ("first", "left", "right"):
        graph.add_node(name, say(name, asks=asks and name != "first"))
    graph.add_node("sent", say("sent"))
    if awaited:
        graph.add_node("last", _awaited(say("last")))
    else:
        graph.add_node("last", say("last"))
    graph.add_node("gather", lambda state: {"said": ["gathered"]})
    graph.add_edge(START, "first").add_edge("first", "left").add_edge("first", "right")
    graph.add_edge(["left", "right"], "gather")
    graph.add_conditional_edges("gather", lambda state: [Send("sent", {})] * 2, ["sent"])
    return graph.add_edge("sent", "last").add_edge("last", END).compile()


def _awaited(node: Callable[[Any], Talk]) -> Any:
    async def wait(state: Any) -> Talk:
        return node(state)

    return wait


def build_nested(*, asks: bool = False) -> Any:
    """Returns a graph of which one node is a graph."""
    below = StateGraph(Talk).add_node("inner", say("inner", asks=asks))
    below.add_node("then", say("then")).add_edge(START, "inner").add_edge("inner", "then")
    graph = StateGraph(Talk).add_node("first", say("first")).add_node("below", below.compile())
    graph.add_node("last", say("last")).add_edge(START, "first").add_edge("first", "below")
    return graph.add_edge("below", "last").compile()


def build_unsaved() -> Any:
    """Returns a graph with a node that calls a graph which stores nothing."""

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
    """Returns a graph with breakpoints, before a node and after one."""
    graph = StateGraph(Talk)
    for name in ("a", "b", "c"):
        graph.add_node(name, say(name))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    return graph.compile(interrupt_before=["b"], interrupt_after=["b"])


def build_functional() -> Any:
    """Returns a graph of the functional API, two tasks of which run at once and one asks."""
    parts: dict[str, Any] = {
        name: task(name=name)(say(name, asks=name == "y")) for name in ("x", "y", "z")
    }

    @entrypoint()
    def sell(given: dict[str, Any]) -> dict[str, Any]:
        both = [parts["x"]({}), parts["y"]({})]
        said = [one.result()["said"] for one in both]
        return {"said": [*said, parts["z"]({}).result()["said"]]}

    return sell


GRAPHS: dict[str, Callable[[], Any]] = {
    "telling_plain": build_talk,
    "telling_asking": lambda: build_talk(asks=True),
    "telling_awaited": lambda: build_talk(awaited=True),
    "telling_nested": build_nested,
    "telling_nested_asking": lambda: build_nested(asks=True),
    "telling_stopping": build_stopping,
    "telling_functional": build_functional,
}


def register_graphs() -> None:
    """Registers the graphs; each piece of a message is stored as it is said."""
    message_buffer.SECONDS = 0
    for name, build in GRAPHS.items():
        register_langgraph(name, events=(*MODES, "subgraphs"))(build)
    # With "sync" LangGraph runs no graph below that stores nothing.
    register_langgraph("telling_unsaved", events=(*MODES, "subgraphs"), durability="async")(
        build_unsaved
    )


def answer(run: Any) -> int:
    """Answers one question that is open, as those of a step are answered one by one."""
    asked = Interrupt.objects.filter(status="pending", run=run, run__state__in=Run.ANSWERABLE)
    for question in sorted(asked, key=lambda one: str(one.payload))[:1]:
        if question.kind == Interrupt.Kind.BREAKPOINT:
            decide(question.pk, "approve", key="the reviewer's")
        else:
            decide(question.pk, "respond", "yes", key="the reviewer's")
        return 1
    return 0


def live(graph: str, key: str) -> None:
    """Starts a run, and works and answers until it has ended."""
    run = services.start(graph, {"said": []}, key=key).id
    runner.advance(str(run))
    while answer(run):
        runner.advance(str(run))


def die_everywhere(graph: str, told: Any, *, after: bool) -> None:
    """Has one process after the other killed at each commit; tells how many runs there were."""
    register_graphs()
    number, survivors = 0, 0
    while survivors < 1:
        number += 1
        child = os.fork()
        if child == 0:
            agent_victim.kill_at_commit(number, str(number), after=after)
            live(graph, str(number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
        survivors += not os.WIFSIGNALED(status)
    told.send(number)
