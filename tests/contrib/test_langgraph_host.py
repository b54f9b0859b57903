"""Engine graphs in nodes of LangGraph graphs: runs, streams, interrupts and responses."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnablePassthrough
from langgraph.store.memory import InMemoryStore
from langgraph.types import Interrupt
from typing_extensions import TypedDict

from hitl_django import once
from hitl_django.engine.errors import NoSaverError
from tests.compat.engines import LANGGRAPH, OURS, Engine
from tests.compat.test_tokens import plain

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG: Any = {"configurable": {"thread_id": "t"}}
Command = LANGGRAPH.Command


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


runs: list[str] = []


@pytest.fixture(autouse=True)
def forget_runs() -> None:
    runs.clear()


def built(engine: Engine, nodes: dict[str, Any], saver: Any = None, **how: Any) -> Any:
    """Return a graph with sequential nodes."""
    graph, before = engine.StateGraph(State), engine.START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver, **how)


def first(state: State) -> State:
    runs.append("first")
    return {"log": ["first"]}


def asking(engine: Engine) -> Any:
    def ask(state: State) -> State:
        return {"log": [engine.interrupt("one?"), engine.interrupt("two?")]}

    return built(engine, {"first": first, "ask": ask})


def asking_below(engine: Engine) -> Any:
    return built(engine, {"below": asking(engine)})


def asking_twice(engine: Engine) -> Any:
    """A node that calls one graph after the other, which both ask."""
    one, two = asking(engine), asking(engine)

    def both(state: State) -> State:
        one.invoke({"x": 1})
        return {"log": two.invoke({"x": 2})["log"]}

    return both


def in_chain(engine: Engine) -> Any:
    return RunnablePassthrough() | asking(engine) | (lambda state: {"log": state["log"]})


def in_function(engine: Engine) -> Any:
    graph = asking(engine)
    return lambda state: graph.invoke(state)


INSIDE: dict[str, Callable[[Engine], Any]] = {
    "node": asking,
    "below": asking_below,
    "twice": asking_twice,
    "chain": in_chain,
    "function": in_function,
}


def around(inside: Any, saver: Any = None, **how: Any) -> Any:
    """Return a LangGraph graph with a graph, or a function that calls one, as a node."""
    nodes = {"before": lambda state: {}, "inside": inside, "end": lambda state: {"log": ["end"]}}
    return built(LANGGRAPH, nodes, saver or LANGGRAPH.InMemorySaver(), **how)


def forget_tasks(chunk: Any) -> Any:
    """Return a chunk without the ids of tasks and interrupts."""
    if isinstance(chunk, dict):
        return {key: forget_tasks(value) for key, value in chunk.items()}
    if isinstance(chunk, Interrupt):
        return "?", chunk.value
    if isinstance(chunk, tuple | list):
        return [forget_tasks(part) for part in chunk]
    return chunk.partition(":")[0] if isinstance(chunk, str) else chunk


def stream(graph: Any, value: Any, way: str) -> list[Any]:
    how: Any = {"stream_mode": ["updates", "values", "custom"], "subgraphs": True}

    async def collect() -> list[Any]:
        return [forget_tasks(chunk) async for chunk in graph.astream(value, CONFIG, **how)]

    if way == "astream":
        return asyncio.run(collect())
    return [forget_tasks(chunk) for chunk in graph.stream(value, CONFIG, **how)]


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("inside", INSIDE)
def test_stream_and_resumes_of_graph_as_langgraph_node_match_a_langgraph_subgraph(
    inside: str, way: str
) -> None:
    seen = []
    answers = [Command(resume=str(number)) for number in range(4 if inside == "twice" else 2)]
    for engine in (OURS, LANGGRAPH):
        runs.clear()
        graph = around(INSIDE[inside](engine))
        chunks = [stream(graph, value, way) for value in ({"x": 1}, *answers)]
        seen.append((chunks, graph.get_state(CONFIG).values, graph.get_state(CONFIG).next, [*runs]))
    assert seen[0] == seen[1]
    assert seen[0][2] == ()


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_as_langgraph_node_resumes_parallel_interrupts_by_id(engine: Engine) -> None:
    def ask(state: Any) -> State:
        return {"log": [f"{state['x']}: {engine.interrupt(state['x'])}"]}

    graph = engine.StateGraph(State).add_node("ask", ask)
    sends = [engine.Send("ask", {"x": 1}), engine.Send("ask", {"x": 2})]
    graph.add_conditional_edges(engine.START, lambda state: sends, ["ask"])
    top = around(graph.compile())
    asked = top.invoke({"x": 0}, CONFIG)["__interrupt__"]
    assert sorted(interrupt.value for interrupt in asked) == [1, 2]
    one, two = sorted(asked, key=lambda interrupt: interrupt.value)
    result = top.invoke(Command(resume={two.id: "b"}), CONFIG)
    assert [interrupt.value for interrupt in result["__interrupt__"]] == [1]
    result = top.invoke(Command(resume={one.id: "a"}), CONFIG)
    assert result["log"] == ["1: a", "2: b", "end"]


def test_results_of_once_in_graph_as_langgraph_node_are_reused_after_interrupts() -> None:
    def act(state: State) -> State:
        once("a", lambda: runs.append("a"))
        one = OURS.interrupt("one?")
        once("b", lambda: runs.append("b"))
        return {"log": [one, OURS.interrupt("two?")]}

    top = around(built(OURS, {"act": act}))
    for value in ({"x": 1}, Command(resume="1"), Command(resume="2")):
        result = top.invoke(value, CONFIG)
    assert (result["log"], runs) == (["1", "2", "end"], ["a", "b"])


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_as_langgraph_node_resumes_at_its_failed_node(engine: Engine) -> None:
    def flaky(state: State) -> State:
        runs.append("flaky")
        if runs.count("flaky") == 1:
            raise OSError("down")
        return {"log": ["flaky"]}

    top = around(built(engine, {"first": first, "flaky": flaky}))
    with pytest.raises(OSError, match="down"):
        top.invoke({"x": 1}, CONFIG)
    assert top.invoke(None, CONFIG)["log"] == ["first", "flaky", "end"]
    assert runs == ["first", "flaky", "flaky"]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_as_langgraph_node_sends_command_to_its_parent(engine: Engine) -> None:
    def leave(state: State) -> Any:
        update, goto = {"log": ["left"]}, [engine.Send("sent", {"x": 5})]
        return engine.Command(graph=engine.Command.PARENT, update=update, goto=goto)

    graph = LANGGRAPH.StateGraph(State).add_node("inside", built(engine, {"leave": leave}))
    graph.add_node("sent", lambda state: {"x": state["x"]}).add_edge(LANGGRAPH.START, "inside")
    assert graph.compile().invoke({"x": 1}) == {"x": 5, "log": ["left"]}


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_as_langgraph_node_receives_context_and_store_of_its_parent(engine: Engine) -> None:
    def look(state: State, runtime: Any) -> State:
        runtime.store.put(("a",), "key", {"x": 1})
        return {"log": [runtime.context]}

    look.__annotations__["runtime"] = engine.Runtime
    store = InMemoryStore()
    top = around(built(engine, {"look": look}), store=store)
    assert top.invoke({"x": 1}, CONFIG, context="given")["log"] == ["given", "end"]
    assert store.get(("a",), "key").value == {"x": 1}


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("subgraphs", [True, False], ids=["all", "own"])
def test_graph_as_langgraph_node_streams_messages_and_custom_chunks_through_its_parent(
    subgraphs: bool, way: str
) -> None:
    def speaking(engine: Engine) -> Any:
        llm = GenericFakeChatModel(messages=iter([AIMessage("hello world")]))

        def speak(state: Any) -> Any:
            engine.get_stream_writer()("spoken")
            return {"messages": [llm.invoke(state["messages"])]}

        graph = engine.StateGraph(engine.MessagesState).add_node("speak", speak)
        inner = graph.add_edge(engine.START, "speak").compile()
        top = LANGGRAPH.StateGraph(LANGGRAPH.MessagesState).add_node("inside", inner)
        return top.add_edge(LANGGRAPH.START, "inside").compile()

    async def collect(graph: Any, **how: Any) -> list[Any]:
        return [plain(chunk) async for chunk in graph.astream(value, **how)]

    value, how = {"messages": [HumanMessage("hi", id="1")]}, {"subgraphs": subgraphs}
    seen = []
    for engine in (OURS, LANGGRAPH):
        graph: Any = speaking(engine)
        modes = {"stream_mode": ["messages", "custom"], **how}
        chunks = (
            asyncio.run(collect(graph, **modes))
            if way == "astream"
            else [plain(chunk) for chunk in graph.stream(value, **modes)]
        )
        seen.append(chunks)
    assert seen[0] == seen[1]


def test_graph_as_langgraph_node_interrupting_without_saver_raises_error_for_missing_saver() -> (
    None
):
    top = LANGGRAPH.StateGraph(State).add_node("inside", asking(OURS))
    top.add_edge(LANGGRAPH.START, "inside")
    with pytest.raises(
        NoSaverError, match=r"Node 'ask' called interrupt\(\), but the graph has no checkpointer"
    ):
        top.compile().invoke({"x": 1})


def test_graph_called_in_langgraph_node_with_a_separate_thread_resumes_on_the_separate_thread() -> (
    None
):
    saver = OURS.InMemorySaver()
    graph = built(OURS, {"ask": lambda state: {"log": [OURS.interrupt("?")]}}, saver)
    own: Any = {"configurable": {"thread_id": "own"}}
    top = around(lambda state: {"log": [len(graph.invoke({"x": 1}, own)["__interrupt__"])]})
    assert top.invoke({"x": 1}, CONFIG)["log"] == [1, "end"]
    assert graph.invoke(OURS.Command(resume="yes"), own)["log"] == ["yes"]
