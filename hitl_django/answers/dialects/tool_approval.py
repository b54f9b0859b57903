"""A tool that asks before it acts: ``{"action": its name, "message", ...its arguments}``.

The answer is ``{"action": "approve", ...arguments to use instead}`` or ``{"action": "reject"}``.

A question of this shape may as well be meant to be answered by true or false, and then a rejection
that is an object would count as a yes. So it is never recognised: a graph's policy or ``review()``
has to say that it is one.
"""

from __future__ import annotations

from typing import Any

from ..decision_types import APPROVE, EDIT, REJECT, Meant, an_object, no_value, refuse, required

ACTION, MESSAGE = "action", "message"


def speaks(payload: Any) -> bool:
    """Says whether a payload can be one."""
    return (
        isinstance(payload, dict)
        and isinstance(payload.get(ACTION), str)
        and payload[ACTION].strip() != ""
        and isinstance(payload.get(MESSAGE), str | None)
    )


def title(payload: Any) -> str:
    """Says in a line what is asked."""
    return str(payload.get(MESSAGE) or f"Allow {payload[ACTION]}?")


def why(payload: Any) -> str:
    """Returns nothing: the message is the title."""
    return ""


def decisions(payload: Any) -> tuple[str, ...]:
    """Lists what the payload allows, in the order to offer it."""
    return (APPROVE, EDIT, REJECT) if start(payload) else (APPROVE, REJECT)


def start(payload: Any) -> Any:
    """Returns what an edit edits: the arguments."""
    return {key: value for key, value in payload.items() if key not in (ACTION, MESSAGE)}


def edited(payload: Any, value: Any) -> Any:
    """Returns what an edit makes of it."""
    return value


def compose(payload: Any, type: str, value: Any) -> Any:  # noqa: A002
    """Returns the resume value of a decision."""
    if type != EDIT:
        no_value(type, value)
        return {ACTION: type}
    arguments = an_object(required(type, value))
    if ACTION in arguments:
        raise refuse("The action can't be changed.", (f"/{ACTION}", "is not an argument"))
    return {**arguments, ACTION: APPROVE}


def read(payload: Any, resume: Any) -> list[Meant]:
    """Returns the decisions that may have come to a resume value."""
    match resume:
        case {"action": "approve", **arguments}:
            return [Meant(EDIT, arguments, "")]
    return []
