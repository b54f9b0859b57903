"""Lists of messages: merged by id rather than appended blindly.

A message is any object with an ``id`` attribute, such as LangChain's, which dicts, pairs and texts
become where it is installed; or else a dict with ``role`` and ``content``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from ..bridges import find_langchain
from ..types import Overwrite

REMOVE_ALL_MESSAGES = "__remove_all__"

_dict_id, _object_id = itemgetter("id"), attrgetter("id")
#: What messages are written as, which aren't objects with an id.
_WRITTEN = frozenset({dict, str, tuple, list})


@dataclass(slots=True)
class RemoveMessage:
    """Removes the message with this id; REMOVE_ALL_MESSAGES removes what came before."""

    id: str
    type: str = "remove"


def add_messages(
    left: Any = None, right: Any = None, *, format: Literal["langchain-openai"] | None = None
) -> Any:
    """Fold new messages into a list: one with a known id replaces, a RemoveMessage removes.

    ``right`` is a message or a list of them: an object of LangChain's, a dict of ``role`` and
    ``content``, a pair of the two, or the text of a user. Where langchain-core is installed, all
    become its messages. With ``format`` their contents get the blocks of OpenAI's chat API.

    Called without messages it returns a reducer.
    """
    if format not in (None, "langchain-openai"):
        raise ValueError(f"format must be 'langchain-openai' or None, not {format!r}.")
    if left is None and right is None:
        return _merge if format is None else partial(_merge, format=format)
    return _merge(left if left is not None else [], right if right is not None else [], format)


class MessagesState(TypedDict):
    """A state with one field: the messages so far."""

    messages: Annotated[list[Any], add_messages]


def is_message_reducer(reducer: Any) -> bool:
    """Return whether a reducer is add_messages."""
    return getattr(reducer, "func", reducer) in (add_messages, _merge)


def find_message_fault(value: Any) -> str | None:
    """Return why a value is neither a message nor a list of them; None where it is."""
    try:
        _list_messages(value)
    except Exception as error:
        return str(error)
    return None


def add_message_ids(
    writes: Sequence[tuple[str, Any]], keys: frozenset[str]
) -> list[tuple[str, Any]]:
    """Return writes in which every message for a channel of ``keys`` has an id.

    Ids are given before a write is stored: given later, a write that is applied twice, for a
    branch to see and then for good, would become two messages.
    """
    return [
        (name, _identify(value))
        if name in keys and not isinstance(value, Overwrite)
        else (name, value)
        for name, value in writes
    ]


def _identify(value: Any) -> Any:
    """Return a message, or a list of them, with an id each; the same object if they have one."""
    if _is_one(value):
        return _with_id(value)
    return value if None not in map(_id_of, value) else [_with_id(message) for message in value]


def _is_one(value: Any) -> bool:
    """Return whether a value is one message and not several."""
    if isinstance(value, tuple):
        return _is_pair(value)
    return isinstance(value, str | dict) or not isinstance(value, Sequence)


def _is_pair(value: Any) -> bool:
    """Return whether a value is a message as a role and a content."""
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)


def _with_id(message: Any) -> Any:
    """Return the message with an id, so that a later update can name it."""
    if isinstance(message, str):
        message = {"role": "user", "content": message}
    elif _is_pair(message):
        message = {"role": message[0], "content": message[1]}
    if _id_of(message) is not None:
        return message
    if isinstance(message, dict):
        return {**message, "id": str(uuid.uuid4())}
    if not hasattr(message, "id"):
        raise TypeError(
            "A message must be an object with an id, a dict with role and content, a "
            f"(role, content) pair, or a string, not {type(message).__name__}."
        )
    message.id = str(uuid.uuid4())
    return message


def _id_of(message: Any) -> str | None:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _removes(message: Any) -> bool:
    kind = message.get("type") if isinstance(message, dict) else getattr(message, "type", None)
    return kind == "remove"


def _list_messages(value: Any) -> tuple[list[Any], list[str | None]]:
    """Return messages that all have an id and are LangChain's where it is installed; the ids."""
    found = [value] if _is_one(value) else list(value)
    if (known := _list_ids(found)) is not None:
        return found, known
    names = [m.get("id") if type(m) is dict else _id_of(m) for m in found]
    if None in names:
        found = [_with_id(message) for message in found]
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
    """Return the ids of messages that are objects and complete; None where any is to be looked at.

    A conversation is gone through for each message that is added to it.
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
    added, fresh = _list_messages(right)
    # The common case is new messages at the end.
    is_plain = len(set(fresh)) == len(fresh) and not any(_removes(message) for message in added)
    if is_plain and type(left) is list and _are_others(left, fresh):
        return left + added
    kept, known = _list_messages(left)
    if is_plain and not set(fresh).intersection(known):
        return kept + added
    for position in range(len(added) - 1, -1, -1):
        if _removes(added[position]) and fresh[position] == REMOVE_ALL_MESSAGES:
            return [message for message in added[position + 1 :] if not _removes(message)]
    return _replaced(kept, known, zip(added, fresh, strict=True))


def _are_others(messages: list[Any], names: Iterable[str | None]) -> bool:
    """Return whether all messages are kept as they are, with an id that isn't one of ``names``.

    A conversation is looked through for each message that is added to it, so this is done without
    a step of Python for each message that is there.
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
    """Return whether messages of a type are objects, and complete."""
    return kind not in _WRITTEN and not kind.__name__.endswith("Chunk")


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
