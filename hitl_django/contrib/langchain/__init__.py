"""LangChain's classes for the engine: the one package that knows langchain-core."""

from __future__ import annotations

from .ambient import enter_config
from .message_stream import MessageStream, add_handler
from .messages import complete_message, convert_message, format_for_openai, register_messages
from .tool_callbacks import ToolCallbacks
from .tool_outputs import keep_commands, unwrap_output
from .tools import DirectlyInjectedToolArg, InjectedToolArg, ToolException, ToolMessage

__all__ = [
    "DirectlyInjectedToolArg",
    "InjectedToolArg",
    "MessageStream",
    "ToolCallbacks",
    "ToolException",
    "ToolMessage",
    "add_handler",
    "complete_message",
    "convert_message",
    "enter_config",
    "format_for_openai",
    "keep_commands",
    "unwrap_output",
]

register_messages()
