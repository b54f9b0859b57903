"""Article on the main flows: private state, shared channels and arguments of nodes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from hitl_django import END, START, Command, StateGraph, interrupt
from hitl_django.engine.task.runtime import Runtime


class InputState(TypedDict):
    user_input: str


class OutputState(TypedDict):
    graph_output: str


class OverallState(TypedDict):
    foo: str
    user_input: str
    graph_output: str


class PrivateState(TypedDict):
    bar: str


def test_private_state_written_by_a_node_reaches_the_next_node() -> None:
    """Follow 2.3: the article prints {'graph_output': 'My name is Lance'}."""

    def node_1(state: InputState) -> OverallState:
        return {"foo": state["user_input"] + " name"}

    def node_2(state: OverallState) -> PrivateState:
        return {"bar": state["foo"] + " is"}

    def node_3(state: PrivateState) -> OutputState:
        return {"graph_output": state["bar"] + " Lance"}

    builder = StateGraph(OverallState, input_schema=InputState, output_schema=OutputState)
    builder.add_node("node_1", node_1)
    builder.add_node("node_2", node_2)
    builder.add_node("node_3", node_3)
    builder.add_edge(START, "node_1")
    builder.add_edge("node_1", "node_2")
    builder.add_edge("node_2", "node_3")
    builder.add_edge("node_3", END)

    graph = builder.compile()
    assert graph.invoke({"user_input": "My"}) == {"graph_output": "My name is Lance"}


def test_private_state_written_before_an_interrupt_reaches_the_resumed_node(
    checkpointer: Any, config: Any
) -> None:
    """Follow 2.3, with a question between the private write and its reader."""

    def node_1(state: InputState) -> PrivateState:
        return {"bar": state["user_input"]}

    def node_2(state: PrivateState) -> OutputState:
        return {"graph_output": f"{state['bar']} {interrupt('who?')}"}

    builder = StateGraph(OverallState, input_schema=InputState, output_schema=OutputState)
    builder.add_node("node_1", node_1)
    builder.add_node("node_2", node_2)
    builder.add_edge(START, "node_1")
    builder.add_edge("node_1", "node_2")
    graph = builder.compile(checkpointer=checkpointer)
    graph.invoke({"user_input": "My"}, config)
    assert graph.invoke(Command(resume="friend"), config) == {"graph_output": "My friend"}


def test_conditional_edge_function_receives_state_by_the_schema_of_its_parameter() -> None:
    """Follow 2.2: the path function gets its own input schema, as its node leaves the state."""
    seen = []

    class Route(TypedDict):
        foo: str

    def node(state: InputState) -> Any:
        return {"foo": state["user_input"].upper()}

    def path(state: Route) -> str:
        seen.append(state["foo"])
        return "left" if state["foo"] == "L" else "right"

    builder = StateGraph(OverallState)
    builder.add_node("node", node)
    builder.add_node("left", lambda state: {"graph_output": "left"})
    builder.add_node("right", lambda state: {"graph_output": "right"})
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", path)
    graph = builder.compile()
    assert graph.invoke({"user_input": "l"})["graph_output"] == "left"
    assert graph.invoke({"user_input": "r"})["graph_output"] == "right"
    assert seen == ["L", "R"]


def test_schemas_with_equal_reducers_for_a_key_share_its_channel() -> None:
    """Follow 2.3, "shared channels": equal reducers are one channel."""

    class One(TypedDict):
        log: Annotated[list[str], operator.add]

    class Two(TypedDict):
        log: Annotated[list[str], operator.add]

    def first(state: One) -> Any:
        return {"log": ["first"]}

    def second(state: Two) -> Any:
        return {"log": [f"second saw {len(state['log'])}"]}

    builder = StateGraph(One)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    assert builder.compile().invoke({"log": []}) == {"log": ["first", "second saw 1"]}


def test_schemas_with_different_reducers_for_a_key_raise_value_error() -> None:
    """Follow 2.3, "shared channels": the error of _add_schema."""

    class One(TypedDict):
        log: Annotated[list[str], operator.add]

    class Two(TypedDict):
        log: Annotated[list[str], operator.mul]

    builder = StateGraph(One)
    with pytest.raises(ValueError, match="Channel 'log' already exists with a different type"):
        builder.add_node("second", lambda state: None, input_schema=Two)


class State(TypedDict):
    input: str
    results: str


@dataclass
class Context:
    user_id: str


@pytest.mark.parametrize("context", [Context(user_id="u-1"), {"user_id": "u-1"}])
def test_nodes_receive_runtime_and_config_by_parameter_name(
    checkpointer: Any, config: Any, printed: Any, context: Any
) -> None:
    """Follow 2.4: by the name of the parameter."""
    builder = StateGraph(State, context_schema=Context)

    def plain_node(state: State) -> State:
        return state

    def node_with_runtime(state: State, runtime: Runtime[Context]) -> Any:
        print("In node: ", runtime.context.user_id)
        return {"results": f"Hello, {state['input']}!"}

    def node_with_config(state: State, config: RunnableConfig) -> Any:
        print("In node with thread_id: ", config["configurable"]["thread_id"])
        return {"results": f"Hello, {state['input']}!"}

    builder.add_node("plain_node", plain_node)
    builder.add_node("node_with_runtime", node_with_runtime)
    builder.add_node("node_with_config", node_with_config)
    builder.add_edge(START, "plain_node")
    builder.add_edge("plain_node", "node_with_runtime")
    builder.add_edge("node_with_runtime", "node_with_config")
    graph = builder.compile(checkpointer=checkpointer)

    result = graph.invoke({"input": "World"}, config, context=context)
    assert result == {"input": "World", "results": "Hello, World!"}
    assert printed.lines() == ["In node:  u-1", "In node with thread_id:  some_id"]
