"""Lists of messages: merged by id rather than appended blindly.

A message is a dict with ``role`` and ``content``, or any object with an ``id`` attribute, such as
langchain's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

REMOVE_ALL_MESSAGES = "__remove_all__"


@dataclass(slots=True)
class RemoveMessage:
    """Removes the message with this id; REMOVE_ALL_MESSAGES removes what came before."""

    id: str
    type: str = "remove"


def _id_of(message: Any) -> str | None:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _removes(message: Any) -> bool:
    kind = message.get("type") if isinstance(message, dict) else getattr(message, "type", None)
    return kind == "remove"


def _identified(message: Any) -> Any:
    """Returns the message with an id, so that a later update can name it."""
    if isinstance(message, str):
        message = {"role": "user", "content": message}
    elif isinstance(message, tuple) and len(message) == 2:
        message = {"role": message[0], "content": message[1]}
    if _id_of(message) is not None:
        return message
    if isinstance(message, dict):
        return {**message, "id": str(uuid.uuid4())}
    message.id = str(uuid.uuid4())
    return message


def _as_list(messages: Any) -> list[Any]:
    return list(messages) if isinstance(messages, (list, Sequence)) and not isinstance(
        messages, (str, tuple)
    ) else [messages]  # fmt: skip


def _merged(left: Any, right: Any) -> list[Any]:
    kept = [message if _id_of(message) is not None else _identified(message)
            for message in _as_list(left)]  # fmt: skip
    added = [_identified(message) for message in _as_list(right)]
    for position in range(len(added) - 1, -1, -1):
        if _removes(added[position]) and _id_of(added[position]) == REMOVE_ALL_MESSAGES:
            return [message for message in added[position + 1 :] if not _removes(message)]
    # The common case, new messages at the end, must not cost a walk over what is there.
    places: dict[str | None, int] = {_id_of(message): at for at, message in enumerate(kept)}
    removed: set[str | None] = set()
    for message in added:
        key = _id_of(message)
        if _removes(message):
            if key not in places:
                raise ValueError(
                    f"Attempting to delete a message with an ID that doesn't exist ('{key}')"
                )
            removed.add(key)
        elif key in places:
            removed.discard(key)
            kept[places[key]] = message
        else:
            places[key] = len(kept)
            kept.append(message)
    return [message for message in kept if _id_of(message) not in removed] if removed else kept


def add_messages(left: Any = None, right: Any = None) -> Any:
    """Folds new messages into a list: one with a known id replaces, a RemoveMessage removes.

    Called without messages it returns a reducer.
    """
    if left is None and right is None:
        reducer: Callable[[Any, Any], list[Any]] = _merged
        return reducer
    return _merged(left if left is not None else [], right if right is not None else [])


class MessagesState(TypedDict):
    """A state with one field: the messages so far."""

    messages: Annotated[list[Any], add_messages]
