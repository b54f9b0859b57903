"""Tool arguments that the node injects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import StateGraph as TheirStateGraph
from langgraph.prebuilt import InjectedState as TheirState
from langgraph.prebuilt import InjectedStore as TheirStore
from langgraph.prebuilt import ToolNode as TheirToolNode
from langgraph.prebuilt import ToolRuntime as TheirRuntime

from hitl_django import START, StateGraph
from hitl_django.contrib.agents import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolNode,
    ToolRuntime,
)
from hitl_django.engine.state.messages import MessagesState
from hitl_django.langgraph.store.memory import InMemoryStore

#: Langchain serializes the runtime that it passes to LangGraph, whose types don't name the context.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


class State(MessagesState, total=False):
    user: str


@dataclass
class Who:
    name: str


def of_state(x: int, state: Annotated[dict, InjectedState]) -> str:
    """Take the state."""
    return f"{x} {state['user']}"


def of_field(x: int, user: Annotated[str, InjectedState("user")]) -> str:
    """Take a field of the state."""
    return f"{x} {user}"


def of_store(x: int, store: Annotated[Any, InjectedStore()]) -> str:
    """Take the store."""
    return f"{x} {store.get(('names',), 'a').value['name']}"


def of_call(x: int, call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Take the id of the call."""
    return f"{x} {'ann' if call_id == 'c1' else call_id}"


def of_runtime(x: int, runtime: ToolRuntime[Who, State]) -> str:
    """Take all that there is."""
    assert runtime.tool_call_id == "c1"
    assert runtime.store.get(("names",), "a").value == {"name": "ann"}
    assert runtime.config["metadata"]["langgraph_node"] == "tools"
    assert runtime.context.name == runtime.state["user"]
    runtime.stream_writer("seen")
    return f"{x} {runtime.state['user']}"


def of_their_state(x: int, state: Annotated[dict, TheirState()]) -> str:
    """Take the state, by LangGraph's marker."""
    return f"{x} {state['user']}"


def of_their_store(x: int, store: Annotated[Any, TheirStore()]) -> str:
    """Take the store, by LangGraph's marker."""
    return f"{x} {store.get(('names',), 'a').value['name']}"


def of_their_runtime(x: int, runtime: TheirRuntime) -> str:
    """A tool that takes LangGraph's runtime."""
    return f"{x} {runtime.state['user']}"


async def of_async(x: int, state: Annotated[dict, InjectedState]) -> str:
    """Take the state on an event loop."""
    return f"{x} {state['user']}"


TOOLS = [
    of_state, of_field, of_store, of_call, of_runtime, of_their_state, of_their_store,
    of_their_runtime, of_async,
]  # fmt: skip


def run(one: Any, name: str, args: dict[str, Any], way: str) -> Any:
    store = InMemoryStore()
    store.put(("names",), "a", {"name": "ann"})
    graph = StateGraph(State, context_schema=Who).add_node("tools", ToolNode([one]))
    compiled = graph.add_edge(START, "tools").compile(store=store)
    call = {"name": name, "args": args, "id": "c1"}
    value = {"messages": [AIMessage("", tool_calls=[call])], "user": "ann"}
    if way == "invoke":
        result = compiled.invoke(value, context=Who("ann"))
    else:
        result = asyncio.run(compiled.ainvoke(value, context=Who("ann")))
    return result["messages"][-1].content


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("make", [lambda f: f, tool], ids=["function", "langchain tool"])
@pytest.mark.parametrize("function", TOOLS, ids=lambda f: f.__name__)
def test_tool_node_fills_injected_state_store_and_runtime_arguments(
    function: Callable[..., Any], make: Callable[[Any], Any], way: str
) -> None:
    assert run(make(function), function.__name__, {"x": 1}, way) == "1 ann"


# LangGraph's tools can't be called with a config that isn't derived from the node's.
@pytest.mark.parametrize(
    ("node", "is_derived"), [(ToolNode, False), (ToolNode, True), (TheirToolNode, True)]
)
@pytest.mark.parametrize("make", [lambda f: f, tool], ids=["function", "langchain tool"])
def test_config_given_to_tool_node_reaches_its_tools_as_in_langgraph(
    node: Any, make: Callable[[Any], Any], is_derived: bool
) -> None:
    seen: list[Any] = []

    def look(x: int, config: RunnableConfig, runtime: TheirRuntime) -> str:
        """Look at the config."""
        seen.extend([config, runtime.config])
        return "seen"

    def call_tools(state: State, config: RunnableConfig) -> Any:
        given: Any = {"tags": ["mine"], "metadata": {"mine": 1}}
        given |= {"configurable": {**config["configurable"], "mine": 1}} if is_derived else {}
        return node([make(look)]).invoke(state, given)

    kind = TheirStateGraph if node is TheirToolNode else StateGraph
    graph: Any = kind(State).add_node("tools", call_tools).add_edge(START, "tools").compile()
    call = {"name": "look", "args": {"x": 1}, "id": "c1"}
    graph.invoke({"messages": [AIMessage("", tool_calls=[call])]}, {"tags": ["run"]})
    assert len(seen) == 2
    for config in seen:
        assert config["tags"] == (["mine"] if is_derived else ["run", "mine"])
        assert config["metadata"]["mine"] == 1
        assert config["configurable"].get("mine") == (1 if is_derived else None)


@pytest.mark.parametrize("make", [lambda f: f, tool], ids=["function", "langchain tool"])
def test_tool_node_overwrites_injected_arguments_given_by_the_model(
    make: Callable[[Any], Any],
) -> None:
    forged = {"x": 1, "state": {"user": "eve"}, "user": "eve"}
    assert run(make(of_state), "of_state", forged, "invoke") == "1 ann"
    assert run(make(of_field), "of_field", forged, "invoke") == "1 ann"


@pytest.mark.parametrize("function", TOOLS, ids=lambda f: f.__name__)
def test_tool_schema_for_the_model_omits_injected_arguments(function: Callable[..., Any]) -> None:
    shown = tool(function).tool_call_schema.model_json_schema()
    assert list(shown["properties"]) == ["x"]


def test_tool_node_with_runtime_argument_outside_a_graph_raises_value_error() -> None:
    call = {"name": "of_runtime", "args": {"x": 1}, "id": "c1"}
    with pytest.raises(ValueError, match="ToolRuntime can only be called from a running graph"):
        ToolNode([of_runtime]).invoke({"messages": [AIMessage("", tool_calls=[call])]})
