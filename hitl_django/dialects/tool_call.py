"""Dialect of a single tool call.

The payload is ``{"question", "tool_call": {"name", "args", "id"}}``. The resume value is a pair:
``["continue", null]``, ``["update", new arguments]``, or ``["feedback", text]``. A rejection is
sent as feedback, so that the model learns why the tool was not called.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import APPROVE, EDIT, RESPOND

from .dialect import Dialect, DialectInterrupt, RequestedAction
from .value_checks import Candidate, refuse_value, require_object, require_text, require_value


class ToolCallDialect(Dialect):
    """Interrupts for a single tool call."""

    name = "tool_call"
    button_labels = {RESPOND: _("Send feedback")}  # noqa: RUF012

    def matches(self, payload: Any) -> bool:
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

    def why(self, payload: Any) -> str:
        return str(payload["question"])

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        return (APPROVE, EDIT, RESPOND)

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        return interrupt.payload["tool_call"]["args"]

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        if type == APPROVE:
            refuse_value(type, value)
            return ["continue", None]
        if type == EDIT:
            return ["update", require_object(require_value(type, value))]
        return ["feedback", require_text(require_value(type, value))]

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        match resume:
            case ["update", arguments]:
                return [Candidate(EDIT, arguments, "/1")]
            case ["feedback", text]:
                return [Candidate(RESPOND, text, "/1")]
        return []

    def actions(self, payload: Any) -> list[RequestedAction]:
        call = payload["tool_call"]
        return [RequestedAction(call["name"], call["args"], call_id=call.get("id") or "")]
