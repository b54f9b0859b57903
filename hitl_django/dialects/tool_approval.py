"""Dialect of tools that ask for approval.

The payload is ``{"action": the tool's name, "message", ...the tool's arguments}``. The resume value
is ``{"action": "approve", ...changed arguments}`` or ``{"action": "reject"}``.

The dialect isn't recognized automatically, because a graph with such a payload may instead expect
true or false as the resume value. In Python, the object ``{"action": "reject"}`` counts as true, so
such a graph would treat a rejection as an approval. A graph's policy or ``review()`` must name the
dialect.
"""

from __future__ import annotations

from typing import Any

from hitl_django.decision_types import APPROVE, EDIT, REJECT

from .dialect import Dialect, DialectInterrupt, RequestedAction
from .value_checks import Candidate, invalid_answer, refuse_value, require_object, require_value

ACTION, MESSAGE = "action", "message"


class ToolApprovalDialect(Dialect):
    """Interrupts of a tool that asks for approval."""

    name = "tool_approval"
    is_recognised = False

    def matches(self, payload: Any) -> bool:
        return (
            isinstance(payload, dict)
            and isinstance(payload.get(ACTION), str)
            and payload[ACTION].strip() != ""
            and isinstance(payload.get(MESSAGE), str | None)
        )

    def title(self, payload: Any) -> str:
        return payload.get(MESSAGE) or ""

    def why(self, payload: Any) -> str:
        return ""  # The message is already the title.

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        return (APPROVE, EDIT, REJECT) if _arguments(interrupt.payload) else (APPROVE, REJECT)

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        return _arguments(interrupt.payload)

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        if type != EDIT:
            refuse_value(type, value)
            return {ACTION: type}
        arguments = require_object(require_value(type, value))
        if ACTION in arguments:
            raise invalid_answer(
                "This action can't be edited.", (f"/{ACTION}", "is not an argument of the action")
            )
        return {**arguments, ACTION: APPROVE}

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        match resume:
            case {"action": "approve", **arguments}:
                return [Candidate(EDIT, arguments, "")]
        return []

    def actions(self, payload: Any) -> list[RequestedAction]:
        return [RequestedAction(payload[ACTION], _arguments(payload))]


def _arguments(payload: Any) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in (ACTION, MESSAGE)}
