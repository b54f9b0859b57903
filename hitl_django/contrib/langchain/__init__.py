"""LangChain's classes for the engine: the one package that knows langchain-core."""

from __future__ import annotations

from .ambient import enter_config
from .message_stream import MessageStream, add_handler
from .messages import complete_message, convert_message, format_for_openai, register_messages
from .tools import DirectlyInjectedToolArg, InjectedToolArg, ToolException, ToolMessage

__all__ = [
    "DirectlyInjectedToolArg",
    "InjectedToolArg",
    "MessageStream",
    "ToolException",
    "ToolMessage",
    "add_handler",
    "complete_message",
    "convert_message",
    "enter_config",
    "format_for_openai",
]

register_messages()
