"""Chat messages, as dicts or as objects: their tool calls, and results for them."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from .tool import holds_command
from .tool_call import ToolCall
from .tool_errors import Failure

_LANGCHAIN = "langchain_core.messages"
_BLOCKS = frozenset({"text", "image", "image_url", "document", "file", "json", "search_result"})


def get_part(message: Any, name: str) -> Any:
    """Returns an entry of a dict or an attribute of an object; None where there is none."""
    return message.get(name) if isinstance(message, dict) else getattr(message, name, None)


def get_messages(state: Any, key: str) -> list[Any]:
    """Returns the messages of a state, or of a list that is nothing else."""
    return state if isinstance(state, list) else list(get_part(state, key) or ())


def asks_for_tools(message: Any) -> bool:
    """Returns whether a message is the model's."""
    return get_part(message, "type") == "ai" or get_part(message, "role") in ("ai", "assistant")


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Chooses ``"tools"`` where the last message calls tools, else the end."""
    messages = get_messages(state, messages_key)
    if not messages:
        raise ValueError(f"No messages found in input state to tool_edge: {state}")
    return "tools" if get_part(messages[-1], "tool_calls") else "__end__"


def build_message(call: ToolCall, asker: Any) -> Any:
    """Returns a call's result as a message of the same kind as ``asker``, which called."""
    result = call.result
    if holds_command(result):
        return result
    if get_part(result, "tool_call_id") is not None:
        return _as_dict(result) if isinstance(asker, dict) else result
    fields: dict[str, Any] = {
        "content": _content(result),
        "name": call.name,
        "tool_call_id": call.id,
    }
    if isinstance(result, Failure):
        fields["status"] = "error"
    if any(cls.__module__.startswith(_LANGCHAIN) for cls in type(asker).__mro__):
        # Its module is loaded, for one of its messages called.
        return sys.modules[_LANGCHAIN].ToolMessage(**fields)
    return {"role": "tool", **fields}


def _as_dict(message: Any) -> Any:
    if isinstance(message, dict):
        return message
    fields = {name: get_part(message, name) for name in ("content", "name", "tool_call_id")}
    if get_part(message, "status") == "error":
        fields["status"] = "error"
    return {"role": "tool", **fields}


def _is_blocks(result: Any) -> bool:
    """Returns whether a result is a list of content blocks, which models read as they are."""
    return (
        isinstance(result, list)
        and bool(result)
        and all(isinstance(item, dict) and item.get("type") in _BLOCKS for item in result)
    )


def _content(result: Any) -> Any:
    if isinstance(result, Failure):
        return result.text
    if isinstance(result, str) or _is_blocks(result):
        return result
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)
