"""Lists of messages."""

from __future__ import annotations

from hitl_django.engine.state.messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    RemoveMessage,
    add_messages,
)

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "RemoveMessage", "add_messages"]
