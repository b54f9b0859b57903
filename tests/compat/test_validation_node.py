"""ValidationNode compared with LangGraph's: validated calls that are not executed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


class Select(BaseModel):
    number: int = Field(ge=3, alias="n")
    why: str = "so"


@tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def look(where: str, depth: int = 1) -> str:
    """Look."""
    return where


def say(error: BaseException, call: Any, schema: Any) -> str:
    return f"{type(error).__name__} {call['name']} {call['args']}"


CALLS = {
    "fits": [("Select", {"n": "4"}), ("add", {"a": 1}), ("look", {"where": "x"})],
    "unfit": [("Select", {"n": 1}), ("add", {"a": "x"}), ("look", {})],
    "unknown": [("nothing", {})],
    "none": [],
}


def message(calls: list[Any]) -> AIMessage:
    asked = [{"name": n, "args": a, "id": f"c{at}"} for at, (n, a) in enumerate(calls)]
    return AIMessage("", tool_calls=asked)


def plain(found: Any) -> Any:
    messages = found if isinstance(found, list) else found["messages"]
    return type(found).__name__, [
        # LangGraph gives the models of all functions the same name.
        (
            one.content.replace("error for Validation", "error for look"),
            one.name,
            one.tool_call_id,
            one.additional_kwargs,
        )
        for one in messages
    ]


@pytest.mark.parametrize("given", ["messages", "state"])
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("text", ["default", "own"])
def test_validation_node_result_for_valid_and_invalid_calls_matches_langgraph(
    calls: str, given: str, text: str
) -> None:
    def result(engine: Engine) -> Any:
        how = {} if text == "default" else {"format_error": say}
        node = engine.prebuilt.ValidationNode([Select, add, look], **how)
        messages = [HumanMessage("hi"), message(CALLS[calls])]
        try:
            return plain(node.invoke(messages if given == "messages" else {"messages": messages}))
        except Exception as error:
            return type(error)

    assert result(OURS) == result(LANGGRAPH)


def test_validation_node_in_graph_returns_message_with_is_error_and_reason() -> None:
    for engine in (OURS, LANGGRAPH):
        graph = engine.StateGraph(engine.MessagesState)
        graph.add_node("check", engine.prebuilt.ValidationNode([Select]))
        compiled = graph.add_edge(engine.START, "check").compile()
        result = compiled.invoke({"messages": [message([("Select", {"n": 1})])]})
        last = result["messages"][-1]
        assert last.additional_kwargs == {"is_error": True}
        assert "greater than or equal to 3" in last.content


@pytest.mark.parametrize("messages", [[], [HumanMessage("hi")]])
def test_validation_node_without_ai_message_raises_value_error(messages: list[Any]) -> None:
    for engine in (OURS, LANGGRAPH):
        with pytest.raises(ValueError, match=r"message"):
            engine.prebuilt.ValidationNode([Select]).invoke({"messages": messages})


def test_validation_node_with_invalid_schema_raises_value_error() -> None:
    for engine in (OURS, LANGGRAPH):
        with pytest.raises(ValueError, match="ValidationNode"):
            engine.prebuilt.ValidationNode([3])
        bare = tool(look)
        bare.args_schema = {"type": "object"}
        with pytest.raises(ValueError, match="args_schema"):
            engine.prebuilt.ValidationNode([bare])


def test_validation_node_signature_matches_langgraph() -> None:
    ours, theirs = (
        list(inspect.signature(engine.prebuilt.ValidationNode.__init__).parameters)
        for engine in (OURS, LANGGRAPH)
    )
    assert ours == theirs
