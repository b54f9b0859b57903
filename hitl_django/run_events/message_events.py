"""What models say, as an event of a run has it."""

from __future__ import annotations

from typing import Any

#: Keys of texts that are pieces of JSON. A key in such a piece can't be told, so its value would
#: not be redacted; what a tool is called with is told as an object, where the message is whole.
_PIECES = frozenset({"args", "arguments", "input", "partial_json"})
#: The members of a message that hold such pieces, or may.
_HOLDERS = ("content", "additional_kwargs", "tool_call_chunks", "invalid_tool_calls")


def describe_message(shown: Any, attempt: int) -> Any:
    """Return a message and its metadata, redacted before, as they are stored.

    ``run_attempt`` among the metadata tells what a repeated node says from what was said before.
    """
    if not (isinstance(shown, list) and len(shown) == 2 and isinstance(shown[1], dict)):
        return shown  # it was cut off
    message, metadata = shown
    if isinstance(message, dict):
        message = {
            name: _drop_pieces(value) if name in _HOLDERS else value
            for name, value in message.items()
        }
    return [message, {**metadata, "run_attempt": attempt}]


def _drop_pieces(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_pieces(each) for each in value]
    if isinstance(value, dict):
        return {
            name: "" if name in _PIECES and isinstance(inner, str) else _drop_pieces(inner)
            for name, inner in value.items()
        }
    return value
