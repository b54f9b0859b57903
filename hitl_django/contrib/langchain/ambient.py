"""The config that langchain finds by itself: a model called in a node belongs to the node's run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.runnables.config import var_child_runnable_config

from .message_stream import MessageStream, add_handler


def enter_config(config: Any) -> Callable[[], None]:
    """Has langchain find a config from here on; returns what ends that."""
    token = var_child_runnable_config.set(config)
    return lambda: var_child_runnable_config.reset(token)


def merge_callbacks(callbacks: Any, more: Any) -> Any:
    """Returns the callbacks of two configs as those of one, where a manager is among them.

    One that belongs to a run counts alone: it has what is around that run.
    """
    if isinstance(more, BaseCallbackManager):
        if more.parent_run_id is not None or isinstance(callbacks, BaseCallbackManager):
            return more
        callbacks, more = more, callbacks
    for handler in more or ():
        if handler not in callbacks.handlers:
            callbacks = add_handler(callbacks, handler)
    return callbacks


def drop_message_streams(callbacks: Any) -> Any:
    """Returns callbacks without those that stream the messages of one graph and none below it."""
    if not isinstance(callbacks, BaseCallbackManager):
        return [one for one in callbacks or () if not _is_of_one_graph(one)]
    manager = callbacks.copy()
    for handler in callbacks.handlers:
        if _is_of_one_graph(handler):
            manager.remove_handler(handler)
    return manager


def _is_of_one_graph(handler: Any) -> bool:
    return isinstance(handler, MessageStream) and not handler.subgraphs
