"""Integration of LangChain's classes with the engine. Only this package imports langchain-core."""

from __future__ import annotations

from .embeddings import load_embeddings
from .graph_runnable import GraphRunnable, declare_runnable
from .message_buffer import MessageRecorder
from .message_stream import MessageStream, add_handler
from .messages import (
    build_text_chunk,
    complete_message,
    convert_message,
    format_for_openai,
    register_messages,
)
from .models import load_model
from .nested_callbacks import drop_streams, merge_callbacks
from .node_steps import list_steps
from .progress import ProgressCallbacks
from .run_trace import open_trace
from .tool_callbacks import ToolCallbacks
from .tool_outputs import keep_commands, unwrap_output
from .tools import (
    DirectlyInjectedToolArg,
    InjectedToolArg,
    ToolException,
    ToolMessage,
    convert_tool,
)

__all__ = [
    "DirectlyInjectedToolArg",
    "GraphRunnable",
    "InjectedToolArg",
    "MessageRecorder",
    "MessageStream",
    "ProgressCallbacks",
    "ToolCallbacks",
    "ToolException",
    "ToolMessage",
    "add_handler",
    "build_text_chunk",
    "complete_message",
    "convert_message",
    "convert_tool",
    "declare_runnable",
    "drop_streams",
    "format_for_openai",
    "keep_commands",
    "list_steps",
    "load_embeddings",
    "load_model",
    "merge_callbacks",
    "open_trace",
    "unwrap_output",
]

register_messages()
