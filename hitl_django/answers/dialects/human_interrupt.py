"""LangGraph's HumanInterrupt: one action with its arguments, and what may be done about it.

The payload is ``{"action_request": {"action", "args"}, "config": {"allow_accept", "allow_edit",
"allow_respond", "allow_ignore"}, "description"}``, or a list of one such. The answer is a list of
one ``{"type": "accept" | "edit" | "response" | "ignore", "args"}``.
"""

from __future__ import annotations

from typing import Any

from ..decision_types import (
    APPROVE,
    DECISIONS,
    EDIT,
    REJECT,
    RESPOND,
    Meant,
    a_text,
    an_object,
    no_value,
    only,
    required,
)

ALLOWING = {
    APPROVE: "allow_accept",
    EDIT: "allow_edit",
    REJECT: "allow_ignore",
    RESPOND: "allow_respond",
}


def speaks(payload: Any) -> bool:
    """Says whether a payload is one."""
    request = payload[0] if isinstance(payload, list) and len(payload) == 1 else payload
    if not isinstance(request, dict) or not {"action_request", "config"} <= request.keys():
        return False
    if not request.keys() <= {"action_request", "config", "description"}:
        return False
    action, config = request["action_request"], request["config"]
    return (
        isinstance(action, dict)
        and action.keys() == {"action", "args"}
        and isinstance(action["action"], str)
        and action["action"].strip() != ""
        and isinstance(action["args"], dict)
        and isinstance(config, dict)
        and config.keys() <= set(ALLOWING.values())
        and all(isinstance(allowed, bool) for allowed in config.values())
        and any(config.values())
        and isinstance(request.get("description"), str | None)
    )


def title(payload: Any) -> str:
    """Says in a line what is asked."""
    return f"Allow {start(payload)['action']}?"


def why(payload: Any) -> str:
    """Returns what the payload says about the action."""
    return _request(payload).get("description") or ""


def decisions(payload: Any) -> tuple[str, ...]:
    """Lists what the payload allows, in the order to offer it."""
    config = _request(payload)["config"]
    return tuple(word for word in DECISIONS if config.get(ALLOWING[word]))


def start(payload: Any) -> Any:
    """Returns what an edit edits: ``{"action", "args"}``."""
    return _request(payload)["action_request"]


def edited(payload: Any, value: Any) -> Any:
    """Returns what an edit makes of it."""
    return value


def compose(payload: Any, type: str, value: Any) -> Any:  # noqa: A002
    """Returns the resume value of a decision."""
    if type in (APPROVE, REJECT):
        no_value(type, value)
        return [{"type": "accept" if type == APPROVE else "ignore", "args": None}]
    if type == RESPOND:
        return [{"type": "response", "args": a_text(required(type, value))}]
    action = an_object(required(type, value))
    only(action, "action", "args")
    a_text(action["action"], "/action")
    an_object(action["args"], "/args")
    return [{"type": "edit", "args": action}]


def read(payload: Any, resume: Any) -> list[Meant]:
    """Returns the decisions that may have come to a resume value."""
    match resume:
        case [{"type": "response", "args": text}]:
            return [Meant(RESPOND, text, "/0/args")]
        case [{"type": "edit", "args": action}]:
            return [Meant(EDIT, action, "/0/args")]
    return []


def _request(payload: Any) -> dict[str, Any]:
    request: dict[str, Any] = payload[0] if isinstance(payload, list) else payload
    return request
