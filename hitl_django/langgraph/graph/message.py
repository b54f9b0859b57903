"""Graph states that contain a list of messages."""

from __future__ import annotations

from typing import Annotated, Any
from warnings import warn

from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.state.messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    RemoveMessage,
    add_messages,
)
from hitl_django.engine.task.pushed_messages import push_message

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "MessageGraph",
    "MessagesState",
    "RemoveMessage",
    "add_messages",
    "push_message",
]


class MessageGraph(StateGraph):
    """A graph whose state is a list of messages.

    The class is deprecated. Use StateGraph(MessagesState) instead.
    """

    def __init__(self) -> None:
        warn(
            "Deprecated: use StateGraph(MessagesState) instead of MessageGraph.",
            DeprecationWarning,
            2,
        )
        super().__init__(Annotated[list[Any], add_messages])
