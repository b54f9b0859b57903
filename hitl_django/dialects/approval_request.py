"""Requests of LangChain's middleware, in the mode "per_call", to approve one tool call.

The payload is ``{"type": "tool_approval", "tool_call_id", "name", "args", "description"}``, and its
response schema has an object for each allowed decision. The resume value is one of these:

- ``{"type": "approve"}``
- ``{"type": "edit", "edited_action": {"name", "args"}}``
- ``{"type": "reject", "message"}``
- ``{"type": "respond", "message"}``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hitl_django.decision_types import APPROVE, EDIT, REJECT, RESPOND
from hitl_django.json_text import json_schema

from .dialect import Dialect, DialectInterrupt, RequestedAction, remove_call
from .hitl_request import ALLOWABLE
from .value_checks import (
    UNSET,
    Candidate,
    invalid_answer,
    refuse_value,
    require_members,
    require_object,
    require_text,
    require_value,
)

TYPE, NAME, ARGS, MESSAGE, EDITED = "type", "name", "args", "message", "edited_action"


class ApprovalRequestDialect(Dialect):
    """Interrupts of LangChain's middleware for a single tool call."""

    name = "approval_request"
    arguments_member = ARGS
    rejects_with_reason = True

    def matches(self, payload: Any) -> bool:
        required = {TYPE, "tool_call_id", NAME, ARGS}
        return (
            isinstance(payload, dict)
            and required <= payload.keys() <= {*required, "description"}
            and payload[TYPE] == "tool_approval"
            and isinstance(payload["tool_call_id"], str)
            and isinstance(payload[NAME], str)
            and payload[NAME].strip() != ""
            and isinstance(payload[ARGS], dict)
            and isinstance(payload.get("description", ""), str)
        )

    def takes_schema(self, schema: dict[str, Any]) -> bool:
        return any(_branches(schema))

    def why(self, payload: Any) -> str:
        return remove_call(payload.get("description", ""), payload[NAME], payload[ARGS])

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        if interrupt.schema is None:
            return ALLOWABLE
        allowed = dict(_branches(interrupt.schema))
        return tuple(word for word in ALLOWABLE if word in allowed)

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        return {NAME: interrupt.payload[NAME], ARGS: interrupt.payload[ARGS]}

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        if type == APPROVE:
            refuse_value(type, value)
            return {TYPE: type}
        if type == REJECT:
            return {TYPE: type, **({} if value is UNSET else {MESSAGE: require_text(value)})}
        if type == RESPOND:
            return {TYPE: type, MESSAGE: require_text(require_value(type, value))}
        action = require_object(require_value(type, value))
        require_members(action, NAME, ARGS)
        require_text(action[NAME], f"/{NAME}")
        require_object(action[ARGS], f"/{ARGS}")
        # The action is checked here, so that JSON pointers in errors refer to the value.
        faults = json_schema.find_faults(_action_schema(interrupt.schema), action)
        if faults:
            raise invalid_answer("Invalid action.", *faults)
        return {TYPE: type, EDITED: action}

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        match resume:
            case {"type": "edit", "edited_action": action}:
                return [Candidate(EDIT, action, f"/{EDITED}")]
            case {"type": "reject", "message": message}:
                return [Candidate(REJECT, message, f"/{MESSAGE}")]
            case {"type": "respond", "message": message}:
                return [Candidate(RESPOND, message, f"/{MESSAGE}")]
        return []

    def arguments_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        action = _action_schema(interrupt.schema)
        found = _resolve(action, action["$defs"]).get("properties", {}).get(ARGS)
        return None if found is None else {**found, "$defs": action["$defs"]}

    def edited_schema(self, interrupt: DialectInterrupt) -> dict[str, Any] | None:
        return _action_schema(interrupt.schema)

    def actions(self, payload: Any) -> list[RequestedAction]:
        return [RequestedAction(payload[NAME], payload[ARGS], call_id=payload["tool_call_id"])]


def _branches(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each decision type in a response schema, with the schema for this type."""
    definitions = schema.get("$defs", {})
    for branch in schema.get("oneOf", [schema]):
        found = _resolve(branch, definitions)
        match found:
            case {"properties": {"type": {"const": word}}} if word in ALLOWABLE:
                yield word, found


def _action_schema(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return the schema of an edited action, or an empty schema if edits aren't allowed."""
    edit = dict(_branches(schema or {})).get(EDIT, {})
    definitions = (schema or {}).get("$defs", {})
    return {**edit.get("properties", {}).get(EDITED, {}), "$defs": definitions}


def _resolve(schema: Any, definitions: dict[str, Any]) -> Any:
    reference = schema.get("$ref", "") if isinstance(schema, dict) else ""
    return definitions.get(str(reference).removeprefix("#/$defs/"), schema)
