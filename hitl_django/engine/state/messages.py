"""Lists of messages: merged by id rather than appended blindly.

A message is a dict with ``role`` and ``content``, or any object with an ``id`` attribute, such as
langchain's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, TypedDict

from ..types import Overwrite

REMOVE_ALL_MESSAGES = "__remove_all__"

_dict_id = itemgetter("id")


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
    added, fresh = _with_ids(right)
    # The common case is new messages at the end.
    is_plain = len(set(fresh)) == len(fresh) and not any(_removes(message) for message in added)
    if is_plain and type(left) is list and _are_other_dicts(left, fresh):
        return left + added
    kept, known = _with_ids(left)
    if is_plain and not set(fresh).intersection(known):
        return kept + added
    for position in range(len(added) - 1, -1, -1):
        if _removes(added[position]) and fresh[position] == REMOVE_ALL_MESSAGES:
            return [message for message in added[position + 1 :] if not _removes(message)]
    return _replaced(kept, known, zip(added, fresh, strict=True))


def _are_other_dicts(messages: list[Any], names: Iterable[str | None]) -> bool:
    """Returns whether all messages are dicts with an id that isn't one of ``names``.

    A conversation is looked through for each message that is added to it, so this is done without
    a step of Python for each message that is there.
    """
    if not {dict}.issuperset(map(type, messages)):
        return False
    try:
        return {None, *names}.isdisjoint(map(_dict_id, messages))
    except KeyError:
        return False


def _replaced(
    kept: list[Any], known: list[str | None], added: Iterable[tuple[Any, str | None]]
) -> list[Any]:
    places = {name: at for at, name in enumerate(known)}
    removed: set[str | None] = set()
    for message, name in added:
        if _removes(message):
            if name not in places:
                raise ValueError(
                    f"Attempting to delete a message with an ID that doesn't exist ('{name}')"
                )
            removed.add(name)
        elif name in places:
            removed.discard(name)
            kept[places[name]] = message
        else:
            places[name] = len(kept)
            kept.append(message)
    return [message for message in kept if _id_of(message) not in removed] if removed else kept


def _with_ids(messages: Any) -> tuple[list[Any], list[str | None]]:
    """Returns messages that all have an id, and the ids."""
    found = _as_list(messages)
    names = [m.get("id") if type(m) is dict else _id_of(m) for m in found]
    if None in names:
        found = [_identified(message) for message in found]
        names = [_id_of(message) for message in found]
    return found, names


def add_message_ids(
    writes: Sequence[tuple[str, Any]], keys: frozenset[str]
) -> list[tuple[str, Any]]:
    """Returns writes in which every message for a channel of ``keys`` has an id.

    Ids are given before a write is stored: given later, a write that is applied twice, for a
    branch to see and then for good, would become two messages.
    """
    return [
        (name, _with_ids(value)[0]) if name in keys and _lacks_ids(value) else (name, value)
        for name, value in writes
    ]


def _lacks_ids(value: Any) -> bool:
    if isinstance(value, Overwrite) or (isinstance(value, dict) and "role" not in value):
        return False
    return any(_id_of(message) is None for message in _as_list(value))


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


def is_message_reducer(reducer: Any) -> bool:
    """Returns whether a reducer is add_messages."""
    return reducer is add_messages or reducer is _merged
