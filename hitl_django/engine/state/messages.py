"""Lists of messages that are merged by message id.

A message is an object with an ``id`` attribute, such as LangChain's messages, or a dict with
``role`` and ``content``. If LangChain is installed, dicts, pairs and strings are converted to
LangChain's messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from ..bridges import find_langchain
from ..ids import new_uuid6
from ..types import Overwrite

REMOVE_ALL_MESSAGES = "__remove_all__"

_dict_id, _object_id = itemgetter("id"), attrgetter("id")
#: Types of messages that are not objects with an id.
_WRITTEN = frozenset({dict, str, tuple, list})


@dataclass(slots=True)
class RemoveMessage:
    """A message that removes the message with the same id from a list of messages.

    The id REMOVE_ALL_MESSAGES removes all previous messages.
    """

    id: str
    type: str = "remove"


def add_messages(
    left: Any = None, right: Any = None, *, format: Literal["langchain-openai"] | None = None
) -> Any:
    """Merge new messages into a list. A message replaces the message in the list with the same id.

    A RemoveMessage removes a message. ``right`` is a message or a list of messages. A message is an
    object of LangChain, a dict of ``role`` and ``content``, a pair of role and content, or a str as
    the user's text. If langchain-core is installed, all messages are converted to its classes. With
    ``format``, contents are converted to the blocks of OpenAI's chat API.

    If neither ``left`` nor ``right`` is given, return a reducer with this ``format``.
    """
    if format not in (None, "langchain-openai"):
        raise ValueError(f"format must be 'langchain-openai' or None, not {format!r}.")
    if left is None and right is None:
        return _merge if format is None else partial(_merge, format=format)
    return _merge(left if left is not None else [], right if right is not None else [], format)


class MessagesState(TypedDict):
    """A state with one field: the list of messages."""

    messages: Annotated[list[Any], add_messages]


def is_message_reducer(reducer: Any) -> bool:
    """Return whether a reducer is add_messages."""
    return getattr(reducer, "func", reducer) in (add_messages, _merge)


def find_message_fault(value: Any) -> str | None:
    """Return the reason why a value isn't a message or a list of messages.

    Return None if it's valid.
    """
    try:
        _list_messages(value)
    except Exception as error:
        return str(error)
    return None


def add_message_ids(
    writes: Sequence[tuple[str, Any]], keys: frozenset[str]
) -> list[tuple[str, Any]]:
    """Return ``writes``, with an id for each message that is written to a channel in ``keys``.

    Ids must be assigned before a write is stored. A write is applied once for a conditional edge
    and once at the end of the super-step. If ids were assigned later, one message would become two.
    """
    return [
        (name, _assign_ids(value))
        if name in keys and not isinstance(value, Overwrite)
        else (name, value)
        for name, value in writes
    ]


def _assign_ids(value: Any) -> Any:
    """Return a message or a list of messages with an id for every message."""
    if _is_single_message(value):
        return _ensure_id(value)
    return value if None not in map(_id_of, value) else [_ensure_id(message) for message in value]


def _is_single_message(value: Any) -> bool:
    if isinstance(value, list):
        return False
    if isinstance(value, tuple):
        return _is_role_content_pair(value)
    return isinstance(value, str | dict) or not isinstance(value, Sequence)


def _is_role_content_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)


def _ensure_id(message: Any) -> Any:
    if isinstance(message, str):
        message = {"role": "user", "content": message}
    elif _is_role_content_pair(message):
        message = {"role": message[0], "content": message[1]}
    if _id_of(message) is not None:
        return message
    if isinstance(message, dict):
        return {**message, "id": new_uuid6()}
    if not hasattr(message, "id"):
        raise TypeError(
            "A message must be an object with an id, a dict with role and content, a "
            f"(role, content) pair, or a string, not {type(message).__name__}."
        )
    message.id = new_uuid6()
    return message


def _id_of(message: Any) -> str | None:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _is_removal(message: Any) -> bool:
    kind = message.get("type") if isinstance(message, dict) else getattr(message, "type", None)
    return kind == "remove"


def _list_messages(value: Any) -> tuple[list[Any], list[str | None]]:
    """Return a list of messages, all with ids, and the list of these ids.

    If LangChain is installed, the messages are converted to LangChain's messages.
    """
    found = [value] if _is_single_message(value) else list(value)
    if (known := _list_ids(found)) is not None:
        return found, known
    names = [m.get("id") if type(m) is dict else _id_of(m) for m in found]
    if None in names:
        found = [_ensure_id(message) for message in found]
        names = [_id_of(message) for message in found]
    langchain = find_langchain()
    if langchain is not None:
        for position, message in enumerate(found):
            if type(message) is dict:
                found[position] = langchain.convert_message(message)
            elif str(getattr(message, "type", "")).endswith("Chunk"):
                found[position] = langchain.complete_message(message)
    return found, names


def _list_ids(found: list[Any]) -> list[str | None] | None:
    """Return the ids of messages, or None if a message must be converted or has no id.

    The function must be fast, because each added message requires a check of all messages.
    """
    if not all(map(_is_object, set(map(type, found)))):
        return None
    try:
        names = list(map(_object_id, found))
    except AttributeError:
        return None
    return None if None in names else names


def _merge(left: Any, right: Any, format: str | None = None) -> list[Any]:
    merged = _merge_lists(left, right)
    if format is None:
        return merged
    langchain = find_langchain()
    if langchain is None:
        raise ValueError(f"format={format!r} needs langchain-core, which isn't installed.")
    formatted: list[Any] = langchain.format_for_openai(merged)
    return formatted


def _merge_lists(left: Any, right: Any) -> list[Any]:
    added, added_ids = _list_messages(right)
    # Usually, new messages are appended to the list.
    is_plain = len(set(added_ids)) == len(added_ids) and not any(
        _is_removal(message) for message in added
    )
    if is_plain and type(left) is list and _can_append(left, added_ids):
        return left + added
    kept, known = _list_messages(left)
    if is_plain and not set(added_ids).intersection(known):
        return kept + added
    for position in range(len(added) - 1, -1, -1):
        if _is_removal(added[position]) and added_ids[position] == REMOVE_ALL_MESSAGES:
            return [message for message in added[position + 1 :] if not _is_removal(message)]
    return _replaced(kept, known, zip(added, added_ids, strict=True))


def _can_append(messages: list[Any], names: Iterable[str | None]) -> bool:
    """Return whether ``messages`` remain unchanged if messages with the ids ``names`` are added.

    In this case, every message already has an id that isn't in ``names``, and needs no conversion.
    The function runs for every added message. It therefore avoids a Python loop over the existing
    messages.
    """
    kinds = set(map(type, messages))
    are_dicts = {dict}.issuperset(kinds)
    are_kept = find_langchain() is None if are_dicts else all(map(_is_object, kinds))
    get_id = _dict_id if are_dicts else _object_id
    try:
        return are_kept and {None, *names}.isdisjoint(map(get_id, messages))
    except (KeyError, AttributeError):
        return False


@lru_cache
def _is_object(kind: type) -> bool:
    """Return whether ``kind`` is a message class whose instances need no conversion."""
    return kind not in _WRITTEN and not kind.__name__.endswith("Chunk")


def _replaced(
    kept: list[Any], known: list[str | None], added: Iterable[tuple[Any, str | None]]
) -> list[Any]:
    places = {name: at for at, name in enumerate(known)}
    removed: set[str | None] = set()
    for message, name in added:
        if _is_removal(message):
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
