"""A single tool call: ``{"question", "tool_call": {"name", "args", "id"}}``.

The answer is a pair: ``["continue", null]``, ``["update", new arguments]``, or ``["feedback",
text]``, with which the model hears why its call was not made. There is no other way to say no.
"""

from __future__ import annotations

from typing import Any

from ..decision_types import APPROVE, EDIT, RESPOND, Meant, a_text, an_object, no_value, required


def speaks(payload: Any) -> bool:
    """Says whether a payload is one."""
    if not isinstance(payload, dict) or payload.keys() != {"question", "tool_call"}:
        return False
    call = payload["tool_call"]
    return (
        isinstance(payload["question"], str)
        and isinstance(call, dict)
        and {"name", "args"} <= call.keys() <= {"name", "args", "id", "type"}
        and isinstance(call["name"], str)
        and call["name"].strip() != ""
        and isinstance(call["args"], dict)
        and isinstance(call.get("id"), str | None)
        and call.get("type", "tool_call") == "tool_call"
    )


def title(payload: Any) -> str:
    """Says in a line what is asked."""
    return f"Allow {payload['tool_call']['name']}?"


def why(payload: Any) -> str:
    """Returns what the payload says about the call."""
    return str(payload["question"])


def decisions(payload: Any) -> tuple[str, ...]:
    """Lists what the payload allows, in the order to offer it."""
    return (APPROVE, EDIT, RESPOND)


def start(payload: Any) -> Any:
    """Returns what an edit edits: the arguments."""
    return payload["tool_call"]["args"]


def edited(payload: Any, value: Any) -> Any:
    """Returns what an edit makes of it."""
    return value


def compose(payload: Any, type: str, value: Any) -> Any:  # noqa: A002
    """Returns the resume value of a decision."""
    if type == APPROVE:
        no_value(type, value)
        return ["continue", None]
    if type == EDIT:
        return ["update", an_object(required(type, value))]
    return ["feedback", a_text(required(type, value))]


def read(payload: Any, resume: Any) -> list[Meant]:
    """Returns the decisions that may have come to a resume value."""
    match resume:
        case ["update", arguments]:
            return [Meant(EDIT, arguments, "/1")]
        case ["feedback", text]:
            return [Meant(RESPOND, text, "/1")]
    return []
