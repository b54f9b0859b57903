"""Messages in the state, in all formats of LangChain's users."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from typing_extensions import TypedDict

from hitl_django import StateGraph
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.state.messages import MessagesState, RemoveMessage, add_messages

WRITTEN = {
    "text": "hi",
    "dict": {"role": "user", "content": "hi"},
    "pair": ("user", "hi"),
    "message": HumanMessage("hi"),
}
SEVERAL: dict[str, Callable[[Any], Any]] = {
    "alone": lambda message: message,
    "list": lambda message: [message],
    "tuple": lambda message: (message,),
    "pair in a list": lambda message: [list(message) if isinstance(message, tuple) else message],
}


@pytest.fixture
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl_django.engine.state.messages.find_langchain", lambda: None)


@pytest.mark.parametrize("several", SEVERAL)
@pytest.mark.parametrize("kind", WRITTEN)
def test_add_messages_with_langchain_converts_each_form_to_human_message(
    kind: str, several: str
) -> None:
    (message,) = add_messages([], SEVERAL[several](WRITTEN[kind]))
    assert (type(message), message.content) == (HumanMessage, "hi")
    assert message.id is not None


@pytest.mark.usefixtures("without_langchain")
@pytest.mark.parametrize("several", SEVERAL)
@pytest.mark.parametrize("kind", ["text", "dict", "pair"])
def test_add_messages_without_langchain_converts_each_form_to_dict(kind: str, several: str) -> None:
    (message,) = add_messages([], SEVERAL[several](WRITTEN[kind]))
    assert {**message, "id": ""} == {"role": "user", "content": "hi", "id": ""}
    assert message["id"]


def test_add_messages_converts_message_chunk_to_message() -> None:
    (message,) = add_messages([], AIMessageChunk("whole", id="1"))
    assert type(message) is AIMessage


def test_add_messages_merges_stored_dicts_by_id_and_converts_them_to_messages() -> None:
    left = [{"role": "user", "content": "a", "id": "1"}]
    merged = add_messages(left, [("ai", "b"), {"role": "user", "content": "c", "id": "1"}])
    assert [(type(m).__name__, m.content) for m in merged] == [
        ("HumanMessage", "c"),
        ("AIMessage", "b"),
    ]
    assert add_messages(left, RemoveMessage("1")) == []


def test_add_messages_with_openai_format_converts_image_blocks() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a"}}
    (message,) = add_messages([], HumanMessage([image]), format="langchain-openai")
    assert message.content == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}}
    ]
    with pytest.raises(ValueError, match="'langchain-openai' or None, not 'other'"):
        add_messages([], [], format="other")  # type: ignore[arg-type]


@pytest.mark.usefixtures("without_langchain")
def test_add_messages_with_openai_format_without_langchain_raises_value_error() -> None:
    with pytest.raises(ValueError, match="needs langchain-core"):
        add_messages([], "hi", format="langchain-openai")


@pytest.mark.parametrize("value", [5, None, [None], object()])
def test_add_messages_with_invalid_message_raises_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="A message must be an object with an id"):
        add_messages([], [value] if value is None else value)


#: Separate program that hasn't loaded langchain before its graph is created.
PROGRAM = """
from typing import Annotated
from typing_extensions import NotRequired, TypedDict
from hitl_django.langgraph.checkpoint.memory import InMemorySaver
from hitl_django.langgraph.graph import START, StateGraph, add_messages

class State(TypedDict):
    messages: NotRequired[Annotated[list, add_messages]]

graph = StateGraph(State).add_node("a", lambda state: {"messages": ("ai", "yes")})
compiled = graph.add_edge(START, "a").compile(InMemorySaver())
config = {"configurable": {"thread_id": "t"}}
compiled.invoke({"messages": "hi"}, config)
print([(m.type, m.content) for m in compiled.get_state(config).values["messages"]])
"""


@pytest.mark.slow
def test_messages_graph_restores_stored_messages_without_importing_langchain_first() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[('human', 'hi'), ('ai', 'yes')]"


class Chat(TypedDict):
    messages: NotRequired[Annotated[list[AnyMessage], add_messages]]


@pytest.mark.parametrize("schema", [MessagesState, Chat])
def test_validate_input_accepts_valid_message_forms_and_rejects_unknown_role(schema: Any) -> None:
    graph = StateGraph(schema).add_node("a", lambda state: None).add_edge("__start__", "a")
    compiled = graph.compile()
    for value in ("hi", {"role": "user", "content": "hi"}, [["user", "hi"], HumanMessage("x")]):
        compiled.validate_input({"messages": value})
    with pytest.raises(InvalidInputError, match=r"\$.messages: .*Unexpected message type: 'boss'"):
        compiled.validate_input({"messages": [{"role": "boss", "content": "hi"}]})
    with pytest.raises(InvalidInputError, match=r"\$.messages: A message must be an object"):
        compiled.validate_input({"messages": 5})
