"""Graphs and LangChain's Runnables: chains, events, and Runnables as nodes."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
import threading
from collections.abc import Callable
from textwrap import dedent
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.runnables.config import var_child_runnable_config
from typing_extensions import TypedDict

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from tests.checkpoints.test_conformance import saver
from tests.compat.engines import LANGGRAPH, OURS, Engine

__all__ = ["saver"]

pytestmark = pytest.mark.filterwarnings("ignore")


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]


def counting(engine: Engine, checkpointer: Any = None, name: str | None = None) -> Any:
    """Return a graph of two nodes, after which ``x`` is one more and doubled."""

    def add(state: State) -> State:
        if state["x"] == 13:
            raise OSError("unlucky")
        return {"x": state["x"] + 1, "log": ["add"]}

    def double(state: State) -> State:
        return {"x": state["x"] * 2, "log": ["double"]}

    graph = engine.StateGraph(State).add_node("add", add).add_node("double", double)
    graph.add_edge(engine.START, "add").add_edge("add", "double")
    return graph.compile(checkpointer=checkpointer, name=name)


def model() -> Any:
    said = [AIMessage("hello big world"), AIMessage("and more")]
    return GenericFakeChatModel(messages=iter(said))


def chatting(engine: Engine) -> Any:
    llm = model()
    graph = engine.StateGraph(engine.MessagesState)
    graph.add_node("llm", lambda state: {"messages": [llm.invoke(state["messages"])]})
    return graph.add_edge(engine.START, "llm").compile()


def get_x(state: Any) -> Any:
    """Return ``x``, or a stream chunk without the path of its nodes."""
    return state.get("x", state)


def get_sum(state: Any) -> Any:
    return {"x": sum(one["x"] for one in state.values()) if "double" in state else 7}


CHAINS: dict[str, Callable[[Engine], Any]] = {
    "passthrough | graph": lambda e: RunnablePassthrough() | counting(e),
    "graph | function": lambda e: counting(e) | get_x,
    "function | graph": lambda e: (lambda state: {"x": state["x"] + 10}) | counting(e),
    "dict | graph": lambda e: {"x": get_x} | counting(e),
    "graph | dict": lambda e: counting(e) | {"x": get_x, "whole": RunnablePassthrough()},
    "graph | graph": lambda e: counting(e) | get_sum | counting(e),
    "parallel": lambda e: RunnableParallel(a=counting(e), b=counting(e) | get_x),
    "lambda of invoke": lambda e: RunnableLambda(counting(e).invoke) | get_x,
    "lambda that returns it": lambda e: RunnableLambda(lambda state: counting(e)),
    "pipe": lambda e: counting(e).pipe(get_x, lambda x: [x]),
    "pick": lambda e: counting(e).pick("x"),
    "assign": lambda e: counting(e).assign(y=get_x),
    "with_retry": lambda e: counting(e).with_retry(stop_after_attempt=2),
    "with_fallbacks": lambda e: RunnableLambda(failing).with_fallbacks([counting(e)]),
    "its fallback": lambda e: counting(e).with_fallbacks([RunnableLambda(get_x)]),
    "with_types": lambda e: counting(e).with_types(input_type=dict),
    "bind": lambda e: counting(e).bind(interrupt_before=["double"]),
    "with_config": lambda e: counting(e).with_config(tags=["a"]) | get_x,
    "with_listeners": lambda e: counting(e).with_listeners(on_end=lambda run: None),
    "as_tool": lambda e: counting(e).as_tool(name="count", description="counts"),
}


def failing(state: Any) -> Any:
    raise ValueError("no")


VALUE: Any = {"x": 1, "log": []}


@pytest.mark.parametrize("chain", CHAINS)
def test_result_of_runnable_chain_with_graph_matches_langgraph(chain: str) -> None:
    ours, theirs = CHAINS[chain](OURS), CHAINS[chain](LANGGRAPH)
    assert ours.invoke(VALUE) == theirs.invoke(VALUE)
    assert asyncio.run(ours.ainvoke(VALUE)) == asyncio.run(theirs.ainvoke(VALUE))


@pytest.mark.parametrize("chain", [name for name in CHAINS if name != "as_tool"])
def test_stream_of_runnable_chain_with_graph_matches_langgraph(chain: str) -> None:
    async def collect(made: Any) -> list[Any]:
        return [chunk async for chunk in made.astream(VALUE)]

    ours, theirs = CHAINS[chain](OURS), CHAINS[chain](LANGGRAPH)
    # In which either node may be first.
    order = str if chain in ("parallel", "graph | dict") else None
    assert sorted_by(order, ours.stream(VALUE)) == sorted_by(order, theirs.stream(VALUE))
    streamed = [asyncio.run(collect(one)) for one in (ours, theirs)]
    assert sorted_by(order, streamed[0]) == sorted_by(order, streamed[1])


def sorted_by(order: Any, chunks: Any) -> list[Any]:
    return list(chunks) if order is None else sorted(chunks, key=order)


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_runnable_chain_of_prompt_graph_and_parser_returns_text(engine: Engine) -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "{question}")])
    to_state = RunnableLambda(lambda value: {"messages": value.to_messages()})
    last = RunnableLambda(lambda state: state["messages"][-1])
    chain = prompt | to_state | chatting(engine) | last | StrOutputParser()
    assert chain.invoke({"question": "hi"}) == "hello big world"


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_batch_returns_results_and_exceptions_in_order(engine: Engine) -> None:
    graph, inputs = counting(engine), [{"x": 1}, {"x": 13}, {"x": 3}]
    first, failure, last = graph.batch(inputs, return_exceptions=True)
    assert (first["x"], type(failure), last["x"]) == (4, OSError, 8)
    with pytest.raises(OSError, match="unlucky"):
        graph.batch(inputs)
    kept = asyncio.run(graph.abatch(inputs, [{}, {}, {}], return_exceptions=True))
    assert [type(one) for one in kept] == [dict, OSError, dict]
    assert [one["x"] for one in graph.map().invoke([{"x": 1}, {"x": 2}])] == [4, 6]
    ended = dict(graph.batch_as_completed([{"x": 1}, {"x": 2}], {"max_concurrency": 1}))
    assert {index: result["x"] for index, result in ended.items()} == {0: 4, 1: 6}


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_graph_batch_stores_each_input_in_its_thread(saver: BaseCheckpointSaver, way: str) -> None:
    graph = counting(OURS, saver)
    inputs = [{"x": number} for number in range(4)]
    configs = [{"configurable": {"thread_id": f"t{number}"}} for number in range(4)]
    if way == "batch":
        results = graph.batch(inputs, configs)
    else:
        results = async_to_sync(graph.abatch)(inputs, configs)
    assert [result["x"] for result in results] == [2, 4, 6, 8]
    assert [graph.get_state(config).values["x"] for config in configs] == [2, 4, 6, 8]


@pytest.mark.django_db(transaction=True)
def test_graph_batch_outside_a_transaction_runs_inputs_in_parallel() -> None:
    together = threading.Barrier(2)

    def meet(state: State) -> State:
        together.wait(60)
        return {}

    graph = OURS.StateGraph(State).add_node("meet", meet).add_edge(OURS.START, "meet")
    configs = [{"configurable": {"thread_id": f"t{number}"}} for number in range(2)]
    made = graph.compile(checkpointer=DjangoSaver())
    assert len(made.batch([{"x": 1}, {"x": 2}], configs)) == 2


#: Programs for separate processes, because the order of imports matters.
ORDERS = {
    "langchain first": ("chain", "ours", "build"),
    "langchain last": ("ours", "build", "chain"),
    "between": ("ours", "chain", "build"),
}
PARTS = {
    "chain": "from langchain_core.runnables import Runnable, RunnablePassthrough\n",
    "ours": "from hitl_django import START, StateGraph\n",
    "build": """
        import sys
        graph = StateGraph(dict).add_node("a", lambda state: {"x": 2})
        graph = graph.add_edge(START, "a").compile()
        assert isinstance(graph, object) and not isinstance(graph, int)
        print(graph.batch([{"x": 1}]), "langchain_core" in sys.modules)
    """,
}


@pytest.mark.parametrize("order", ORDERS)
def test_graph_is_a_langchain_runnable_in_any_import_order(order: str) -> None:
    program = "".join(dedent(PARTS[part]) for part in ORDERS[order])
    program += (
        "print((RunnablePassthrough() | graph).invoke({'x': 1}), isinstance(graph, Runnable))"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    loaded = order != "langchain last"
    assert ran.stdout.splitlines() == [f"[{{'x': 2}}] {loaded}", "{'x': 2} True"], ran.stderr


# Calls of callbacks.


def speaking(engine: Engine) -> Any:
    """A graph with a model, a branch, a graph below, a task that is sent, and one that asks."""
    llm = model()

    async def chat(state: Any) -> Any:
        return {"messages": [await llm.ainvoke(state["messages"])]}

    def route(state: Any) -> Any:
        return ["sub", engine.Send("sent", {"messages": []})]

    deep = engine.StateGraph(engine.MessagesState).add_node("deep", chat)
    below = deep.add_edge(engine.START, "deep").compile(name="below")
    graph = engine.StateGraph(engine.MessagesState)
    graph.add_node("chat", chat).add_node("sub", below)
    graph.add_node("sent", lambda state: {"messages": [AIMessage("bye", id="b")]})
    graph.add_node("called", RunnableLambda(lambda state: {"messages": []}, name="inner"))
    graph.add_edge(engine.START, "chat").add_conditional_edges("chat", route, ["sub", "sent"])
    return graph.add_edge(["sub"], "called").compile()


def working(engine: Engine) -> Any:
    """An entrypoint whose task calls a model."""
    llm = model()

    @engine.task
    async def speak(text: str) -> Any:
        return (await llm.ainvoke(text)).content

    @engine.entrypoint()
    async def flow(messages: Any) -> Any:
        return await speak("hi")

    return flow


def asking(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_node("ask", lambda state: engine.interrupt("?"))
    return graph.add_edge(engine.START, "ask").compile(checkpointer=engine.InMemorySaver())


def retrying(engine: Engine) -> Any:
    tried: list[int] = []

    def flaky(state: State) -> State:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("down")
        return {"x": 5}

    policy = engine.RetryPolicy(initial_interval=0, jitter=False, retry_on=OSError)
    graph = engine.StateGraph(State).add_node("flaky", flaky, retry_policy=policy)
    return graph.add_edge(engine.START, "flaky").compile()


def chaining(engine: Engine) -> Any:
    prompt = ChatPromptTemplate.from_messages([("human", "{x}")])
    chain = prompt | model() | StrOutputParser() | (lambda text: {"log": [text]})
    graph = engine.StateGraph(State).add_node("chain", chain)
    graph.add_node("around", RunnablePassthrough() | counting(engine))
    graph.add_node("parallel", RunnableParallel(x=get_x))
    graph.add_conditional_edges("chain", get_route, ["around"]).add_edge("around", "parallel")
    return graph.add_edge(engine.START, "chain").compile()


def get_route(state: State) -> str:
    return "around"


MESSAGES = {"messages": [HumanMessage("hi", id="1")]}
PROGRAMS: dict[str, tuple[Callable[[Engine], Any], Any]] = {
    "nodes": (counting, {"x": 1}),
    "models": (speaking, MESSAGES),
    "tasks": (working, MESSAGES),
    "a pause": (asking, {"x": 1}),
    "a retry": (retrying, {"x": 1}),
    "chains in nodes": (chaining, {"x": 1}),
    "chain": (lambda e: RunnablePassthrough() | counting(e) | get_x, {"x": 1}),
    "function around it": (lambda e: RunnableLambda(around(counting(e))), {"x": 1}),
}


def around(graph: Any) -> Callable[[Any], Any]:
    return lambda state: graph.invoke(state)  # which gets no config


#: Names of LangGraph itself, and ids.
APART = {"ls_integration", "langgraph_checkpoint_ns", "checkpoint_ns"}
CONFIG: Any = {
    "tags": ["mine"],
    "metadata": {"who": "ann"},
    "configurable": {"thread_id": "t"},
    "run_name": "named",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_graph_astream_events_match_langgraph(program: str) -> None:
    build, value = PROGRAMS[program]
    ours = asyncio.run(collect_events(build(OURS), value))
    theirs = asyncio.run(collect_events(build(LANGGRAPH), value))
    assert sort_streams(ours) == sort_streams(theirs)


async def collect_events(graph: Any, value: Any) -> list[Any]:
    events = graph.astream_events(value, CONFIG, version="v2")
    return [describe_event(event) async for event in events]


def describe_event(event: Any) -> Any:
    told = {key: value for key, value in event["metadata"].items() if key not in APART}
    told["langgraph_path"] = len(told.get("langgraph_path", ()))
    # Which step of a node a graph is, LangGraph tells twice, of this node and the last one.
    tags = sorted(tag for tag in event["tags"] if not tag.startswith("seq:step"))
    depth = len(event["parent_ids"])
    return event["event"], event["name"], depth, tags, told, sorted(event["data"])


def sort_streams(events: list[Any]) -> list[Any]:
    """Return events by name, in their order: of two nodes side by side either may be first."""
    return sorted(events, key=lambda event: (event[1], event[2]))


class Tracer(BaseCallbackHandler):
    """Tracer that records chains and models with their parents."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.names: dict[Any, str] = {}

    def on_chain_start(self, *args: Any, name: str = "", **kwargs: Any) -> None:
        self.note("start", name, **kwargs)

    def on_chat_model_start(self, *args: Any, name: str = "model", **kwargs: Any) -> None:
        self.note("model", "model", **kwargs)

    def note(self, what: str, name: str, run_id: Any, parent_run_id: Any, **kwargs: Any) -> None:
        self.names[run_id] = name
        self.heard.append((what, name, self.names.get(parent_run_id), sorted(kwargs["tags"])))

    def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.heard.append(("end", self.names[run_id], str(outputs)[:40]))

    def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        self.heard.append(("error", self.names[run_id], type(error).__name__))


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ("models", "tasks")])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
def test_langchain_callback_handler_calls_match_langgraph(program: str, way: str) -> None:
    build, value = PROGRAMS[program]
    heard = []
    for engine in (OURS, LANGGRAPH):
        tracer = Tracer()
        config: Any = {**CONFIG, "callbacks": [tracer]}
        graph = build(engine)
        if way == "ainvoke":
            asyncio.run(graph.ainvoke(value, config))
        else:
            list(graph.stream(value, config)) if way == "stream" else graph.invoke(value, config)
        heard.append(tracer.heard)
    assert heard[0] == heard[1]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_langchain_async_callback_handler_is_called_for_graph_and_nodes(engine: Engine) -> None:
    class Listener(AsyncCallbackHandler):
        async def on_chain_start(self, *args: Any, name: str = "", **kwargs: Any) -> None:
            await asyncio.sleep(0)
            heard.append(name)

    heard: list[str] = []
    asyncio.run(counting(engine).ainvoke({"x": 1}, {"callbacks": [Listener()]}))
    assert heard == ["LangGraph", "add", "double"]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_langchain_error_callback_is_called_for_failed_node_and_graph(engine: Engine) -> None:
    tracer = Tracer()
    with pytest.raises(OSError, match="unlucky"):
        counting(engine).invoke({"x": 13}, {"callbacks": [tracer]})
    assert [one[:2] for one in tracer.heard[2:]] == [("error", "add"), ("error", "LangGraph")]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_with_config_passes_bound_tags_metadata_and_callbacks_to_nodes(
    engine: Engine,
) -> None:
    tracer, seen = Tracer(), []

    def look(state: State, config: RunnableConfig) -> State:
        seen.append((config["tags"], config["metadata"]["who"], config["configurable"]["a"]))
        return {}

    graph = engine.StateGraph(State).add_node("look", look).add_edge(engine.START, "look").compile()
    bound = graph.with_config(
        {"callbacks": [tracer], "tags": ["a"], "metadata": {"who": "ann"}}, configurable={"a": 1}
    )
    bound.invoke({"x": 1}, {"tags": ["b"], "configurable": {"b": 2}})
    assert seen == [(["a", "b"], "ann", 1)]
    assert tracer.heard[0] == ("start", "LangGraph", None, ["a", "b"])
    assert graph.config is None


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_subgraph_with_config_merges_bound_config_with_parent_config(engine: Engine) -> None:
    seen = []

    def look(state: State, config: RunnableConfig) -> State:
        names = ("a", "b", "c")
        seen.append((sorted(config["tags"]), [config["metadata"].get(name) for name in names]))
        return {}

    below = engine.StateGraph(State).add_node("look", look).add_edge(engine.START, "look").compile()
    bound = below.with_config(tags=["below"], metadata={"a": 1})
    calls = (lambda state: bound.invoke(state), lambda state: bound.invoke(state, {"tags": ["c"]}))
    for node in (bound, *calls):
        graph = engine.StateGraph(State).add_node("node", node).add_edge(engine.START, "node")
        graph.compile().invoke({"x": 1}, {"tags": ["above"], "metadata": {"b": 2}})
    assert seen == [
        (["above", "below"], [1, 2, None]),
        (["above", "below"], [1, 2, None]),
        (["above", "below", "c"], [1, 2, None]),
    ]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_inside_runnable_chain_uses_thread_id_of_the_chain_config(engine: Engine) -> None:
    graph = counting(engine, engine.InMemorySaver())
    chain = RunnablePassthrough() | RunnableLambda(around(graph))
    config: Any = {"configurable": {"thread_id": "chain"}}
    chain.invoke({"x": 1}, config)
    assert graph.get_state(config).values["x"] == 4


def see_config(seen: list[Any]) -> Runnable[Any, Any]:
    def look(value: Any, config: RunnableConfig) -> Any:
        configurable, metadata = config["configurable"], config["metadata"]
        user, place = configurable.get("user"), metadata.get("langgraph_node")
        seen.append((config["tags"], user, metadata.get("m"), place))
        return value

    return RunnableLambda(look)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_runnable_called_without_config_in_a_node_gets_config_of_the_node(way: str) -> None:
    results = []
    for engine in (OURS, LANGGRAPH):
        seen: list[Any] = []
        look = see_config(seen)
        called = engine.task(look.invoke)

        def node(state: Any, look: Any = look, called: Any = called) -> Any:
            look.invoke(1)
            called(1).result()
            return state

        async def anode(state: Any, look: Any = look) -> Any:
            await asyncio.create_task(look.ainvoke(1))
            return state

        def choose(state: Any, look: Any = look, end: str = engine.END) -> str:
            look.invoke(1)
            return end

        graph = engine.StateGraph(State).add_node("n", node if way == "invoke" else anode)
        graph = graph.add_edge(engine.START, "n").add_conditional_edges("n", choose).compile()
        config: Any = {"tags": ["t"], "metadata": {"m": 1}, "configurable": {"user": "ann"}}
        if way == "invoke":
            graph.invoke({"x": 1}, config)
        else:
            asyncio.run(graph.ainvoke({"x": 1}, config))
        assert var_child_runnable_config.get() is None
        results.append(seen)
    assert results[0] == results[1]
    assert all(entry[:3] == (["t"], "ann", 1) for entry in results[0])


# Runnables as nodes.


async def _aonly(state: Any) -> Any:
    return {"x": state["x"] + 100}


class Flaky:
    """Function that fails on its first call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise OSError("down")
        return {"x": self.calls}


NODES: dict[str, Callable[[Engine], Any]] = {
    "sequence": lambda e: RunnableLambda(get_x) | (lambda x: {"x": x + 5}),
    "parallel": lambda e: RunnableParallel(x=RunnableLambda(get_x) | (lambda x: x * 3)),
    "passthrough": lambda e: RunnablePassthrough.assign(x=lambda state: state["x"] - 1),
    "retried": lambda e: RunnableLambda(Flaky()).with_retry(
        retry_if_exception_type=(OSError,), wait_exponential_jitter=False
    ),
    "fallback": lambda e: RunnableLambda(failing).with_fallbacks(
        [RunnableLambda(lambda state: {"x": 9})]
    ),
    "chain around a graph": lambda e: (
        RunnablePassthrough() | counting(e) | (lambda s: {"x": s["x"]})
    ),
    "bound graph": lambda e: counting(e).bind(interrupt_before=[]),
    "configured graph": lambda e: counting(e).with_config(tags=["t"]),
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("node", NODES)
def test_result_of_runnable_as_node_matches_langgraph(node: str, way: str) -> None:
    results = []
    for engine in (OURS, LANGGRAPH):
        graph = engine.StateGraph(State).add_node("node", NODES[node](engine))
        made = graph.add_edge(engine.START, "node").compile()
        results.append(
            made.invoke({"x": 1}) if way == "invoke" else asyncio.run(made.ainvoke({"x": 1}))
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_graph_inside_runnable_chain_node_is_listed_by_get_subgraphs(engine: Engine) -> None:
    chain = NODES["chain around a graph"](engine)
    made = engine.StateGraph(State).add_node("node", chain).add_edge(engine.START, "node").compile()
    assert list(made.get_subgraphs()) == [("node", chain.steps[1])]


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_async_only_runnable_as_node_raises_type_error_in_sync_invoke(engine: Engine) -> None:
    graph = engine.StateGraph(State).add_node("node", RunnableLambda(_aonly))
    made = graph.add_edge(engine.START, "node").compile()
    assert asyncio.run(made.ainvoke({"x": 1}))["x"] == 101
    with pytest.raises(TypeError):
        made.invoke({"x": 1})


def test_graph_is_not_an_instance_of_runnable_subclasses() -> None:
    assert not isinstance(counting(OURS), RunnablePassthrough)
    assert isinstance(counting(OURS).bind(), Runnable)
    assert isinstance(counting(OURS).map(), Runnable)
