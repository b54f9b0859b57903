"""Merging of callbacks for nested calls."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks.base import BaseCallbackManager

from .message_stream import MessageStream, add_handler
from .tool_callbacks import ToolCallbacks


def merge_callbacks(callbacks: Any, more: Any) -> Any:
    """Merge the callbacks of two configs. At least one argument must be a callback manager.

    Two managers aren't merged: ``more`` is returned unchanged. ``more`` is also returned unchanged
    if it is the manager that LangChain passes to code inside a run. This manager already includes
    the callbacks of the run's caller.
    """
    if isinstance(more, BaseCallbackManager):
        if more.parent_run_id is not None or isinstance(callbacks, BaseCallbackManager):
            return more
        callbacks, more = more, callbacks
    for handler in more or ():
        if handler not in callbacks.handlers:
            callbacks = add_handler(callbacks, handler)
    return callbacks


def drop_streams(callbacks: Any) -> Any:
    """Return callbacks without the stream handlers that are limited to a single graph."""
    if not isinstance(callbacks, BaseCallbackManager):
        return [one for one in callbacks or () if not _is_of_one_graph(one)]
    manager = callbacks.copy()
    for handler in callbacks.handlers:
        if _is_of_one_graph(handler):
            manager.remove_handler(handler)
    return manager


def _is_of_one_graph(handler: Any) -> bool:
    return isinstance(handler, MessageStream | ToolCallbacks) and not handler.subgraphs
