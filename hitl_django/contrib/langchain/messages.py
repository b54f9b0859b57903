"""Conversion of messages to LangChain's classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core import messages
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    convert_to_messages,
    convert_to_openai_messages,
    message_chunk_to_message,
)

from hitl_django.engine.serde import adopt_model
from hitl_django.engine.state.schema import is_model


def register_messages() -> None:
    """Allow the states of graphs to contain LangChain's messages and documents."""
    for cls in list_stored_classes():
        adopt_model(cls)


def list_stored_classes() -> Iterator[Any]:
    """Yield the classes of LangChain that the state may contain: documents and messages."""
    yield Document
    for name in messages.__all__:
        found = getattr(messages, name)
        if is_model(found) and not getattr(found, "__abstractmethods__", None):
            yield found


def convert_message(message: Any) -> BaseMessage:
    """Convert a dict, a text, or a pair of role and content to a LangChain message."""
    return convert_to_messages([message])[0]


def build_text_chunk(id: str, text: str) -> BaseMessageChunk:
    """Return a chunk of a model's message with the given id."""
    return AIMessageChunk(content=text, id=id)


def complete_message(message: BaseMessage) -> BaseMessage:
    """Convert a message that consists of merged chunks to a complete message."""
    return message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message


def format_for_openai(given: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages with their contents in OpenAI's block format."""
    return convert_to_messages(convert_to_openai_messages(given))
