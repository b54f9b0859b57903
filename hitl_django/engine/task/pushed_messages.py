"""Messages that a node adds to the state and the stream before the node returns."""

from __future__ import annotations

import logging
from typing import Any

from ..bridges import find_langchain
from .node_api import get_context

logger = logging.getLogger("hitl_django")


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Write a message to the state and to the stream mode ``messages``, and return it.

    The message is emitted immediately. After the node returns, the message is added to the state
    under ``state_key``, before the node's own writes. With ``state_key=None``, the message is only
    emitted. ``message`` is a message of LangChain, a dict, or a pair of role and content. A message
    pushed later with the same id replaces the earlier message.

    Raises:
        ValueError: the message has no id.
    """
    context = get_context()
    langchain = find_langchain()
    if langchain is not None:
        message = langchain.convert_message(message)
    name = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    if name is None:
        raise ValueError("A pushed message requires an id.")
    if context.run.message_stream is not None:
        metadata = context.config()["metadata"]
        context.run.message_stream.push(context.task.origin.levels, message, metadata)
    if state_key:
        channels = context.task.origin.spec.channels
        if state_key in channels:
            context.push(state_key, message)
        else:
            logger.warning(
                "node '%s' pushed a message to %r, which is not in the state; it is dropped",
                context.task.name, state_key,
            )  # fmt: skip
    return message
