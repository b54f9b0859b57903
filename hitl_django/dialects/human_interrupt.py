"""LangGraph's HumanInterrupt: one action with its arguments and allowed decisions.

The payload is ``{"action_request": {"action", "args"}, "config": {"allow_accept", "allow_edit",
"allow_respond", "allow_ignore"}, "description"}``, or a list with one such object. The resume value
is a list with one object ``{"type": "accept" | "edit" | "response" | "ignore", "args"}``.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import APPROVE, EDIT, REJECT, RESPOND
from hitl_django.json_text.json_patch import is_same_json

from .dialect import Dialect, DialectInterrupt, RequestedAction
from .value_checks import (
    Candidate,
    refuse_value,
    require_members,
    require_object,
    require_text,
    require_value,
)

#: The members of the configuration that allow a decision, in the order of display.
ALLOWING = {
    APPROVE: "allow_accept",
    EDIT: "allow_edit",
    REJECT: "allow_ignore",
    RESPOND: "allow_respond",
}


class HumanInterruptDialect(Dialect):
    """Interrupts of LangGraph's prebuilt agents and of Agent Inbox."""

    name = "human_interrupt"
    button_labels = {APPROVE: _("Accept"), REJECT: _("Ignore")}  # noqa: RUF012
    arguments_member = "args"

    def matches(self, payload: Any) -> bool:
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

    def why(self, payload: Any) -> str:
        return _request(payload).get("description") or ""

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        config = _request(interrupt.payload)["config"]
        return tuple(type_ for type_, allowing in ALLOWING.items() if config.get(allowing))

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        return _request(interrupt.payload)["action_request"]

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        if type in (APPROVE, REJECT):
            refuse_value(type, value)
            return [{"type": "accept" if type == APPROVE else "ignore", "args": None}]
        if type == RESPOND:
            return [{"type": "response", "args": require_text(require_value(type, value))}]
        action = require_object(require_value(type, value))
        require_members(action, "action", "args")
        require_text(action["action"], "/action")
        require_object(action["args"], "/args")
        return [{"type": "edit", "args": action}]

    def normalize_resume(self, interrupt: DialectInterrupt, resume: Any) -> Any:
        # Agent Inbox sends the displayed action with an approval.
        match resume:
            case [{"type": "accept", "args": dict(action)} as decision] if len(decision) == 2:
                if is_same_json(action, interrupt.start):
                    return [{"type": "accept", "args": None}]
                # A graph doesn't read the arguments of an approval, so send a change as an edit.
                return [{"type": "edit", "args": action}]
        return resume

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        match resume:
            case [{"type": "response", "args": text}]:
                return [Candidate(RESPOND, text, "/0/args")]
            case [{"type": "edit", "args": action}]:
                return [Candidate(EDIT, action, "/0/args")]
        return []

    def actions(self, payload: Any) -> list[RequestedAction]:
        action = _request(payload)["action_request"]
        return [RequestedAction(action["action"], action["args"])]


def _request(payload: Any) -> dict[str, Any]:
    request: dict[str, Any] = payload[0] if isinstance(payload, list) else payload
    return request
