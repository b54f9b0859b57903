"""Stream mode ``tools``: start and end of tool calls, compared with LangGraph's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from hitl_django.errors import GraphInterrupt

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


def calling(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    asked = [{"name": n, "args": a, "id": f"c{at}"} for at, (n, a) in enumerate(calls)]
    return {"messages": [AIMessage("", tool_calls=asked, id="asker")]}


def build_functions(engine: Engine) -> list[Callable[..., Any]]:
    def add(a: int, runtime: Any, b: int = 1) -> int:
        """Add two numbers, step by step."""
        runtime.emit_output_delta({"so far": a})
        runtime.emit_output_delta("nearly")
        return a + b

    def fail(word: str) -> str:
        """Fail."""
        raise ValueError(word)

    def move(to: str) -> Any:
        """Go elsewhere."""
        return engine.Command(graph=engine.Command.PARENT, update={"messages": []})

    def ask(what: str) -> str:
        """Ask."""
        return str(engine.interrupt(what))

    async def later(what: str) -> str:
        """Take its time."""
        await asyncio.sleep(0)
        return what

    add.__annotations__["runtime"] = engine.prebuilt.ToolRuntime
    return [add, fail, move, ask, later]


def build_graph(engine: Engine, kind: str, tags: list[str] | None = None) -> Any:
    functions = build_functions(engine)
    tools = functions if kind == "function" else [tool(function) for function in functions]
    for one in tools:
        if tags and kind != "function":
            one.tags = tags
    node = engine.prebuilt.ToolNode(tools, handle_tool_errors=True)
    graph = engine.StateGraph(engine.MessagesState).add_node("tools", node)
    return graph.add_edge(engine.START, "tools").compile()


def build_below(engine: Engine, kind: str) -> Any:
    graph = engine.StateGraph(engine.MessagesState).add_node("agent", build_graph(engine, kind))
    return graph.add_edge(engine.START, "agent").compile()


def build_within(engine: Engine, kind: str) -> Any:
    inner = build_graph(engine, kind)
    graph = engine.StateGraph(engine.MessagesState)
    graph.add_node("agent", lambda state: inner.invoke(state))
    return graph.add_edge(engine.START, "agent").compile()


GRAPHS = {"alone": build_graph, "below": build_below, "within": build_within}
CALLS = {
    "adds": calling(("add", {"a": 1})),
    "fails": calling(("fail", {"word": "no luck"})),
    "unknown": calling(("nothing", {})),
    "later": calling(("later", {"what": "x"})),
    "several": calling(("add", {"a": 1}), ("fail", {"word": "x"}), ("add", {"a": 5, "b": 5})),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "tools": {"stream_mode": "tools"},
    "subgraphs": {"stream_mode": "tools", "subgraphs": True},
    "several": {"stream_mode": ["tools", "updates"], "subgraphs": True},
    "v2": {"stream_mode": "tools", "version": "v2"},
    "v2 subgraphs": {"stream_mode": "tools", "version": "v2", "subgraphs": True},
}


def plain(chunk: Any) -> Any:
    """Return a chunk without what differs: ids of tasks and messages, words for a model."""
    if isinstance(chunk, BaseMessage):
        failed = getattr(chunk, "status", "") == "error"
        return (type(chunk).__name__, "failed" if failed else chunk.content)
    if isinstance(chunk, dict):
        return {key: plain(value) for key, value in chunk.items()}
    if isinstance(chunk, tuple | list):
        return [plain(part) for part in chunk]
    return chunk.partition(":")[0] if isinstance(chunk, str) else chunk


def stream(graph: Any, value: Any, options: dict[str, Any], way: str) -> list[Any]:
    async def collect() -> list[Any]:
        return [plain(chunk) async for chunk in graph.astream(value, **options)]

    if way == "astream":
        return asyncio.run(collect())
    return [plain(chunk) for chunk in graph.stream(value, **options)]


def by_call(chunks: list[Any]) -> list[Any]:
    """Return chunks in an order of their calls, which run side by side."""
    return sorted(chunks, key=lambda chunk: [c for c in ("c0", "c1", "c2") if c in str(chunk)])


#: LangGraph runs async tools on event loops alone, and a sync node has none.
CASES = [
    (build, calls, way)
    for build in GRAPHS
    for calls in CALLS
    for way in ("stream", "astream")
    if calls != "later" or (way == "astream" and build != "within")
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("build", "calls", "way"), CASES)
@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_stream_mode_tools_matches_langgraph(
    kind: str, build: str, calls: str, way: str, options: str
) -> None:
    def result(engine: Engine) -> Any:
        how = OPTIONS[options]
        return by_call(stream(GRAPHS[build](engine, kind), CALLS[calls], how, way))

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_command_returned_by_tool_is_the_output_of_tool_finished_event(way: str) -> None:
    def result(engine: Engine) -> Any:
        chunks = stream(
            build_below(engine, "langchain tool"), calling(("move", {"to": "x"})),
            {"stream_mode": "tools", "subgraphs": True}, way,
        )  # fmt: skip
        *_, (_, ended) = chunks
        return ended["event"], type(ended["output"]).__name__, ended["output"].update

    assert result(OURS) == result(LANGGRAPH) == ("tool-finished", "Command", {"messages": []})


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_interrupted_tool_call_streams_two_starts_and_one_finish(kind: str) -> None:
    def result(engine: Engine) -> Any:
        graph = build_graph(engine, kind)
        graph.checkpointer = engine.InMemorySaver()
        config = {"configurable": {"thread_id": "t"}}
        chunks: list[Any] = []
        for value in (calling(("ask", {"what": "?"})), engine.Command(resume="yes")):
            chunks += map(plain, graph.stream(value, config, stream_mode="tools"))
        return [chunk["event"] for chunk in chunks]

    assert result(OURS) == result(LANGGRAPH) == ["tool-started", "tool-started", "tool-finished"]


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_interrupt_in_exception_group_of_a_tool_streams_no_tool_error(kind: str) -> None:
    def ask(what: str) -> str:
        """Ask."""
        try:
            return str(OURS.interrupt(what))
        except GraphInterrupt as pause:
            raise BaseExceptionGroup("of a task group", [pause]) from None

    node = OURS.prebuilt.ToolNode([ask if kind == "function" else tool(ask)])
    graph = OURS.StateGraph(OURS.MessagesState).add_node("tools", node)
    compiled = graph.add_edge(OURS.START, "tools").compile(OURS.InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    given = calling(("ask", {"what": "?"}))
    events = [chunk["event"] for chunk in compiled.stream(given, config, stream_mode="tools")]
    assert events == ["tool-started"]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_tool_stream_of_subgraph_with_separate_checkpointer_matches_langgraph(
    subgraphs: bool,
) -> None:
    def result(engine: Engine) -> list[Any]:
        inner = build_graph(engine, "langchain tool").copy({"checkpointer": engine.InMemorySaver()})
        config = {"configurable": {"thread_id": "own"}}

        def node(state: Any) -> Any:
            inner.invoke(state, config)
            return {"messages": []}

        graph = engine.StateGraph(engine.MessagesState).add_node("agent", node)
        compiled = graph.add_edge(engine.START, "agent").compile()
        options = {"stream_mode": "tools", "subgraphs": subgraphs}
        return stream(compiled, CALLS["adds"], options, "stream")

    assert result(OURS) == result(LANGGRAPH)
    assert bool(result(OURS)) == subgraphs


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_tool_whose_subgraph_hands_off_to_parent_streams_tool_error(kind: str) -> None:
    def result(engine: Engine) -> list[Any]:
        below = engine.StateGraph(engine.MessagesState)
        below.add_node("h", lambda s: engine.Command(graph=engine.Command.PARENT, update=s))
        handing = below.add_edge(engine.START, "h").compile()

        def hand_off(what: str) -> Any:
            """Hand off."""
            return handing.invoke({"messages": []})

        one = hand_off if kind == "function" else tool(hand_off)
        graph = engine.StateGraph(engine.MessagesState)
        graph.add_node("tools", engine.prebuilt.ToolNode([one])).add_edge(engine.START, "tools")
        given = calling(("hand_off", {"what": "x"}))
        return [
            (chunk["event"], chunk["tool_call_id"])
            for chunk in graph.compile().stream(given, stream_mode="tools")
        ]

    assert result(OURS) == result(LANGGRAPH) == [("tool-started", "c0"), ("tool-error", "c0")]


def test_tool_with_nostream_tag_streams_no_events() -> None:
    for engine in (OURS, LANGGRAPH):
        graph = build_graph(engine, "langchain tool", tags=["nostream"])
        assert stream(graph, CALLS["adds"], {"stream_mode": "tools"}, "stream") == []


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_tool_invoked_directly_by_a_node_streams_start_and_finish(way: str) -> None:
    def result(engine: Engine) -> Any:
        @tool
        def double(x: int) -> int:
            """Double."""
            return x * 2

        graph = engine.StateGraph(engine.MessagesState)
        graph.add_node("n", lambda state: {"messages": [("ai", str(double.invoke({"x": 2})))]})
        chunks = stream(
            graph.add_edge(engine.START, "n").compile(), {"messages": []},
            {"stream_mode": "tools"}, way,
        )  # fmt: skip
        return [{key: chunk[key] for key in chunk if key != "tool_call_id"} for chunk in chunks]

    assert result(OURS) == result(LANGGRAPH)
    assert [chunk["event"] for chunk in result(OURS)] == ["tool-started", "tool-finished"]


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_tool_stream_inside_a_streamed_run_emits_each_event_once_per_stream(kind: str) -> None:
    """A node streams a graph's tools, in a run whose own tools are streamed."""
    inner, heard = build_graph(OURS, kind), []

    def listen(state: Any) -> Any:
        heard.extend(inner.stream(state, stream_mode="tools"))
        return {}

    graph = OURS.StateGraph(OURS.MessagesState).add_node("agent", listen)
    graph = graph.add_edge(OURS.START, "agent").compile()
    chunks = list(graph.stream(CALLS["adds"], stream_mode="tools", subgraphs=True))
    assert [data["event"] for _, data in chunks] == [data["event"] for data in heard]
    assert len(heard) == 4


def test_tool_output_delta_is_yielded_in_stream_before_the_tool_returns() -> None:
    heard = threading.Event()

    def slow(runtime: Any) -> str:
        """Wait to be heard."""
        runtime.emit_output_delta("half")
        assert heard.wait(60)
        return "whole"

    slow.__annotations__["runtime"] = OURS.prebuilt.ToolRuntime
    graph = OURS.StateGraph(OURS.MessagesState)
    graph.add_node("tools", OURS.prebuilt.ToolNode([slow]))
    graph = graph.add_edge(OURS.START, "tools").compile()
    events = []
    for chunk in graph.stream(calling(("slow", {})), stream_mode="tools"):
        events.append(chunk["event"])
        if chunk["event"] == "tool-output-delta":
            heard.set()
    assert events == ["tool-started", "tool-output-delta", "tool-finished"]


def test_stream_mode_tools_without_langchain_streams_start_and_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hitl_django.engine.graph.run_options.find_langchain", lambda: None)
    chunks = stream(build_graph(OURS, "function"), CALLS["adds"], OPTIONS["tools"], "stream")
    assert [chunk["event"] for chunk in chunks][::3] == ["tool-started", "tool-finished"]
