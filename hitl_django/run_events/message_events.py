"""Output of language models as events of a run."""

from __future__ import annotations

from typing import Any

#: Keys of strings that are fragments of JSON. Keys inside a fragment can't be recognized, so secret
#: values could not be hidden. The complete message contains the arguments of a tool call as an
#: object.
_PIECES = frozenset({"args", "arguments", "input", "partial_json"})
#: The members of a message that may contain fragments.
_HOLDERS = ("content", "additional_kwargs", "tool_call_chunks", "invalid_tool_calls")


def describe_message(shown: Any, attempt: int) -> Any:
    """Return the stored form of a model's message and of its metadata.

    ``shown`` is a list of both. ``run_attempt`` in the metadata distinguishes the outputs of a node
    that runs several times.
    """
    if not (isinstance(shown, list) and len(shown) == 2 and isinstance(shown[1], dict)):
        return shown  # The message was truncated.
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
