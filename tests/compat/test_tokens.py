"""Models in nodes: streamed tokens, and callbacks of the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool

from hitl_django.engine.drivers.timeouts import TimedContext
from hitl_django.engine.task.context import current

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

HI = {"messages": [HumanMessage("hi", id="1")]}


def model() -> Any:
    said = [AIMessage("hello big world"), AIMessage("and more")]
    return GenericFakeChatModel(messages=iter(said))


def graph_of(engine: Engine, **nodes: Any) -> Any:
    graph = engine.StateGraph(engine.MessagesState)
    before = engine.START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph.compile()


def speaking(llm: Any, **how: Any) -> Callable[[Any], Any]:
    return lambda state: {"messages": [llm.invoke(state["messages"], **how)]}


def aspeaking(llm: Any, **how: Any) -> Callable[[Any], Any]:
    async def speak(state: Any) -> Any:
        return {"messages": [await llm.ainvoke(state["messages"], **how)]}

    return speak


def alone(engine: Engine) -> Any:
    return graph_of(engine, llm=speaking(model()))


def with_others(engine: Engine) -> Any:
    """Messages of a model, of the input, and of a node itself: alone, in a list, in a Command."""
    again = {"messages": [HumanMessage("hi", id="1"), AIMessage("list", id="l")]}
    command = engine.Command(update={"messages": AIMessage("command", id="c")})
    return graph_of(
        engine,
        llm=speaking(model()),
        fixed=lambda state: {"messages": AIMessage("fixed", id="f")},
        again=lambda state: again,
        command=lambda state: command,
    )


def tagged(engine: Engine) -> Any:
    return graph_of(engine, llm=speaking(model(), config={"tags": ["joke"]}))


def silent(engine: Engine) -> Any:
    return graph_of(engine, llm=speaking(model().with_config(tags=["nostream"])))


def below(engine: Engine) -> Any:
    return graph_of(engine, sub=graph_of(engine, llm=speaking(model())))


def within(engine: Engine) -> Any:
    inner = graph_of(engine, llm=speaking(model()))
    return graph_of(engine, sub=lambda state: inner.invoke(state))


def asynchronous(engine: Engine) -> Any:
    return graph_of(engine, llm=aspeaking(model()))


GRAPHS = [alone, with_others, tagged, silent, below, within]
#: LangGraph runs async nodes on event loops alone.
WAYS = [(build, way) for build in GRAPHS for way in ("stream", "astream")]
WAYS.append((asynchronous, "astream"))
OPTIONS: dict[str, dict[str, Any]] = {
    "messages": {"stream_mode": "messages"},
    "several": {"stream_mode": ["messages", "updates"]},
    "subgraphs": {"stream_mode": "messages", "subgraphs": True},
    "v2": {"stream_mode": "messages", "version": "v2"},
}


#: By which LangGraph names itself, and what langchain copies of a config's coordinates.
APART = {"ls_integration", "checkpoint_ns"}


def plain(chunk: Any) -> Any:
    """Return a chunk without what differs from run to run: ids, and the tasks in a namespace."""
    if isinstance(chunk, AIMessage | AIMessageChunk | HumanMessage):
        return (type(chunk).__name__, chunk.content)
    if isinstance(chunk, dict):
        return {
            key: len(value.split("|")) if key.endswith("checkpoint_ns") else plain(value)
            for key, value in chunk.items()
            if key not in APART
        }
    if isinstance(chunk, tuple | list):
        return [plain(part) for part in chunk]
    return chunk.partition(":")[0] if isinstance(chunk, str) else chunk


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("build", "way"), WAYS)
def test_stream_mode_messages_matches_langgraph(
    build: Callable[[Engine], Any], options: str, way: str
) -> None:
    assert streamed(build(OURS), options, way) == streamed(build(LANGGRAPH), options, way)


def streamed(graph: Any, options: str, way: str) -> list[Any]:
    async def collect() -> list[Any]:
        return [plain(chunk) async for chunk in graph.astream(HI, **OPTIONS[options])]

    if way == "astream":
        return asyncio.run(collect())
    return [plain(chunk) for chunk in graph.stream(HI, **OPTIONS[options])]


class Slow(GenericFakeChatModel):
    """Says a word, and another one when the first has been heard."""

    heard: Any

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield self._chunk("one", kwargs)
        assert self.heard.wait(60)
        yield self._chunk(" two", kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk("one"))
        await asyncio.to_thread(self.heard.wait, 60)
        yield ChatGenerationChunk(message=AIMessageChunk(" two"))

    def _chunk(self, text: str, how: dict[str, Any]) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(text))


def test_token_of_sync_chat_model_is_streamed_before_the_model_ends() -> None:
    heard = threading.Event()
    graph = graph_of(OURS, llm=speaking(Slow(messages=iter(()), heard=heard)))
    said = []
    for message, _ in graph.stream(HI, stream_mode="messages"):
        said.append(message.content)
        heard.set()
    assert said[:2] == ["one", " two"]


def test_token_of_async_chat_model_is_streamed_before_the_model_ends() -> None:
    heard = threading.Event()
    graph = graph_of(OURS, llm=aspeaking(Slow(messages=iter(()), heard=heard)))

    async def listen() -> list[Any]:
        said = []
        async for message, _ in graph.astream(HI, stream_mode="messages"):
            said.append(message.content)
            heard.set()
        return said

    assert asyncio.run(listen())[:2] == ["one", " two"]


class Tracer(BaseCallbackHandler):
    """Notes which models were called, and in which node."""

    def __init__(self) -> None:
        self.called: list[Any] = []

    def on_chat_model_start(self, *args: Any, metadata: Any = None, **kwargs: Any) -> None:
        self.called.append((metadata["langgraph_node"], metadata.get("who"), kwargs.get("tags")))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_chat_model_called_without_config_in_a_node_gets_callbacks_and_metadata_of_run(
    engine: Engine, way: str
) -> None:
    tracer = Tracer()
    config = {"callbacks": [tracer], "metadata": {"who": "ann"}, "tags": ["mine"]}
    inner = graph_of(engine, deep=speaking(model()))
    nodes: dict[str, Any] = {"a": speaking(model()), "sub": inner}
    if way == "ainvoke":
        nodes["b"] = aspeaking(model())
    graph = graph_of(engine, **nodes)
    if way == "invoke":
        graph.invoke(HI, config)
    else:
        asyncio.run(graph.ainvoke(HI, config))
    expected = ["a", "deep", *(["b"] if way == "ainvoke" else [])]
    assert [(node, who) for node, who, _ in tracer.called] == [(name, "ann") for name in expected]
    assert all("mine" in tags for _, _, tags in tracer.called)


def test_chat_model_called_without_config_in_a_task_gets_callbacks_of_the_run() -> None:
    tracer, llm = Tracer(), model()

    @OURS.task
    def speak(text: str) -> Any:
        return llm.invoke(text).content

    @OURS.entrypoint()
    def flow(text: str) -> Any:
        return speak(text).result()

    assert flow.invoke("hi", {"callbacks": [tracer]}) == "hello big world"
    assert len(tracer.called) == 1


def place(chunk: Any) -> Any:
    """Return a chunk's namespace without task ids, and the message or the event in it."""
    data = chunk["data"]
    seen = data["event"] if chunk["type"] == "tools" else data[0].content
    return [level.partition(":")[0] for level in chunk["ns"]], seen


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


def build_flow(engine: Engine, kind: str) -> Any:
    @engine.task
    def speak() -> Any:
        echo.invoke({"text": "x"})
        return model().invoke("hi")

    @engine.task
    def outer() -> Any:
        return speak().result()

    if kind == "node":
        return graph_of(engine, n=lambda state: {"messages": [speak().result()]})

    @engine.entrypoint()
    def flow(value: Any) -> Any:
        return (outer() if kind == "nested" else speak()).result().content

    return flow


@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("kind", ["nested", "flow", "node"])
def test_messages_and_tools_of_tasks_are_streamed_in_the_namespace_of_langgraph(
    kind: str, subgraphs: bool
) -> None:
    ours, theirs = (
        [
            place(chunk)
            for chunk in build_flow(engine, kind).stream(
                HI, stream_mode=["messages", "tools"], subgraphs=subgraphs, version="v2"
            )
        ]
        for engine in (OURS, LANGGRAPH)
    )
    assert ours == theirs
    assert ours[0] == ([], "tool-started")
    assert len(ours) == 7


@pytest.mark.parametrize("subgraphs", [True, False])
@pytest.mark.parametrize("is_node", [True, False])
def test_message_streamed_before_an_interrupt_is_not_streamed_again_on_resume(
    is_node: bool, subgraphs: bool
) -> None:
    def stream(engine: Engine) -> list[Any]:
        inner = graph_of(
            engine,
            before=lambda state: {"messages": [AIMessage("before", id="b")]},
            asking=lambda state: {"messages": [AIMessage(engine.interrupt("?"), id="a")]},
        )
        node = inner if is_node else lambda state: {"messages": inner.invoke(state)["messages"]}
        graph = engine.StateGraph(engine.MessagesState).add_node("n", node)
        compiled = graph.add_edge(engine.START, "n").compile(checkpointer=engine.InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        how: dict[str, Any] = {"stream_mode": "messages", "subgraphs": subgraphs, "version": "v2"}
        return [
            [place(chunk) for chunk in compiled.stream(given, config, **how)]
            for given in (HI, engine.Command(resume="yes"))
        ]

    assert stream(OURS) == stream(LANGGRAPH)


class Watched(GenericFakeChatModel):
    """Notes after each token whether it has counted as progress of the node."""

    counted: list[bool]

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        context = current.get()
        assert isinstance(context, TimedContext)
        for word in ("one", "two"):
            assert context.watch is not None
            before = context.watch.progressed
            yield ChatGenerationChunk(message=AIMessageChunk(word))
            self.counted.append(context.watch.progressed > before)


@pytest.mark.parametrize("refresh_on", ["auto", "heartbeat"])
@pytest.mark.parametrize("callbacks", [[], [BaseCallbackHandler()]], ids=["silent", "traced"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_streamed_token_counts_as_progress_for_idle_timeout_in_auto_mode_only(
    way: str, callbacks: list[Any], refresh_on: Any
) -> None:
    llm = Watched(messages=iter(()), counted=[])

    async def speak(state: Any) -> Any:
        return {"messages": [[chunk async for chunk in llm.astream("hi")][-1]]}

    limit = OURS.TimeoutPolicy(idle_timeout=60, refresh_on=refresh_on)
    graph = OURS.StateGraph(OURS.MessagesState).add_node("n", speak, timeout=limit)
    compiled, config = graph.add_edge(OURS.START, "n").compile(), {"callbacks": callbacks}
    if way == "invoke":
        compiled.invoke(HI, config)
    else:
        asyncio.run(compiled.ainvoke(HI, config))
    assert llm.counted == [refresh_on == "auto"] * 2


def test_stream_mode_messages_without_langchain_raises_value_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hitl_django.engine.graph.run_options.find_langchain", lambda: None)
    with pytest.raises(ValueError, match="'messages' needs langchain-core"):
        list(alone(OURS).stream(HI, stream_mode="messages"))
