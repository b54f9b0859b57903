"""Chat messages as dicts or objects, with their tool calls and their results."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.types import Command

from .tool_errors import Failure

_LANGCHAIN = "langchain_core.messages"
#: Message types that determine the speaker. Messages of these types have no role.
_SPEAKERS = frozenset({"ai", "human", "system", "tool", "remove"})
_get_type = attrgetter("type")
_BLOCKS = frozenset({"text", "image", "image_url", "document", "file", "json", "search_result"})


def get_part(message: Any, name: str) -> Any:
    """Return an item of a dict or an attribute of an object, or None if it doesn't exist."""
    return message.get(name) if isinstance(message, dict) else getattr(message, name, None)


def get_messages(state: Any, key: str) -> list[Any]:
    """Return the messages in a state. If the state is a list of messages, return the list."""
    return state if isinstance(state, list) else list(get_part(state, key) or ())


def is_from_model(message: Any) -> bool:
    """Return whether a message is from the model, and may therefore contain tool calls."""
    if get_part(message, "type") in ("ai", "AIMessageChunk"):
        return True
    return get_part(message, "role") in ("ai", "assistant")


def is_result(message: Any) -> bool:
    return "tool" in (get_part(message, "type"), get_part(message, "role"))


def list_open_calls(messages: Sequence[Any], askers: Sequence[Any] | None = None) -> list[Any]:
    """Return the tool calls that have no result in ``messages``.

    ``askers`` are the messages whose calls are checked, by default all messages of the model.
    """
    kinds = _list_kinds(messages)
    if askers is None:
        askers = [message for message, kind in zip(messages, kinds, strict=True) if kind == "ai"]
    results = [message for message, kind in zip(messages, kinds, strict=True) if kind == "tool"]
    ended = set(_list_parts(results, "tool_call_id"))
    calls = [call for asked in _list_parts(askers, "tool_calls") if asked for call in asked]
    return [call for call in calls if call.get("id") not in ended]


def _list_parts(messages: Sequence[Any], name: str) -> list[Any]:
    try:
        # Without a loop in Python, which is needed only if a message is a dict.
        return list(map(attrgetter(name), messages))
    except AttributeError:
        return [get_part(message, name) for message in messages]


def _list_kinds(messages: Sequence[Any]) -> list[str]:
    """Return the type of each message, such as "ai" or "tool".

    The type of a message that is neither from the model nor from a tool may be an empty string.
    """
    try:
        # Avoid Python code for each message, because this function runs before each model call.
        kinds = list(map(_get_type, messages))
        if _SPEAKERS.issuperset(kinds):
            return kinds
    except (AttributeError, TypeError):
        pass  # Dicts have no type attribute, and objects may use the attribute for other purposes.
    return [
        "ai" if is_from_model(message) else "tool" if is_result(message) else ""
        for message in messages
    ]


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Return ``"tools"`` if the last message has tool calls, otherwise ``"__end__"``."""
    messages = get_messages(state, messages_key)
    if not messages:
        raise ValueError(f"No messages found in input state to tool_edge: {state}")
    return "tools" if get_part(messages[-1], "tool_calls") else "__end__"


def build_message(result: Any, name: str, call_id: str | None, asker: Any, key: str) -> Any:
    """Return the result of a tool call as a message.

    ``asker`` is the message that contains the call. A new message has the same format as ``asker``
    (``make_tool_message``). A message object returned by the tool becomes a dict if ``asker`` is a
    dict. A list of Commands and messages stays a list.

    A Command stays a Command. In its update, message objects with this ``call_id`` get the tool's
    name. ``key`` is the key of the messages in the update.
    """
    if isinstance(result, list) and result and all(map(_is_finished, result)):
        return [build_message(item, name, call_id, asker, key) for item in result]
    if isinstance(result, Command):
        return _name_messages(result, name, call_id, key)
    if get_part(result, "tool_call_id") is not None:
        return _as_dict(result) if isinstance(asker, dict) else _with_content(result)
    fields: dict[str, Any] = {"content": _content(result), "name": name, "tool_call_id": call_id}
    if isinstance(result, Failure):
        fields["status"] = "error"
    return make_tool_message(fields, asker)


def make_tool_message(fields: dict[str, Any], asker: Any) -> Any:
    """Return a tool message with these fields, as a LangChain message or a dict.

    The result is a LangChain message if LangChain is installed, and ``asker`` is a LangChain
    message or None.
    """
    is_foreign = any(cls.__module__.startswith(_LANGCHAIN) for cls in type(asker).__mro__)
    langchain = find_langchain() if is_foreign or asker is None else None
    if langchain is None:
        return {"role": "tool", **fields}
    return langchain.ToolMessage(**fields)


def _is_finished(item: Any) -> bool:
    """Return whether a tool's result is a Command or a message about a tool call."""
    return isinstance(item, Command) or get_part(item, "tool_call_id") is not None


def _with_content(message: Any) -> Any:
    content = _content(get_part(message, "content"))
    if content != get_part(message, "content"):
        message.content = content
    return message


def _name_messages(command: Command[Any], name: str, call_id: str | None, key: str) -> Command[Any]:
    def named(message: Any) -> Any:
        if isinstance(message, dict) or getattr(message, "tool_call_id", None) != call_id:
            return message
        message = copy.copy(message)
        message.name = name
        return message

    update = command.update
    if isinstance(update, list):
        return replace(command, update=[named(message) for message in update])
    if isinstance(update, dict) and isinstance(update.get(key), list):
        return replace(command, update={**update, key: [named(each) for each in update[key]]})
    return command


def _as_dict(message: Any) -> Any:
    if isinstance(message, dict):
        return message
    fields = {name: get_part(message, name) for name in ("content", "name", "tool_call_id")}
    if get_part(message, "status") == "error":
        fields["status"] = "error"
    return {"role": "tool", **fields}


def _is_blocks(result: Any) -> bool:
    """Return whether a result is a list of content blocks, which models accept."""
    return isinstance(result, list | tuple) and all(
        isinstance(item, dict) and item.get("type") in _BLOCKS for item in result
    )


def _content(result: Any) -> Any:
    if isinstance(result, Failure):
        return result.text
    if isinstance(result, str):
        return result
    if _is_blocks(result):
        return list(result)
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)
