"""The dialect of plain JSON, in which the resume value must fit the response schema.

Without a schema, any JSON value is valid.

The table shows the resume value of each decision type. "value" is the reviewer's value, and
"prefill" is the initial value of the form. "prefill | value" merges both objects, as in Python.

    response schema           approve              reject               edit          respond
    ------------------------  -------------------  -------------------  ------------  -------
    none                      true                 false                the value     the value
    a boolean                 true                 false
    object with ``approved``  prefill | value      prefill | value      the value
                              + approved: true     + approved: false    + approved: true
    any other                                                                         the value
    (a breakpoint)            true

Without a schema, a graph's policy may define other resume values for the four decision types.
"""

from __future__ import annotations

from typing import Any

from hitl_django.decision_types import APPROVE, EDIT, REJECT, RESPOND, VALUE
from hitl_django.json_text import json_schema
from hitl_django.json_text.secret_values import is_secret

from .dialect import Dialect, DialectInterrupt
from .value_checks import UNSET, Candidate, refuse_value, require_object, require_value

APPROVED = "approved"


class PlainJsonDialect(Dialect):
    """Interrupts whose payload has no other dialect."""

    name = "raw"
    is_recognised = False
    requests_actions = False
    takes_any_json = True

    def matches(self, payload: Any) -> bool:
        return True

    def why(self, payload: Any) -> str:
        why = payload.get("why") if isinstance(payload, dict) else None
        return why if isinstance(why, str) else ""

    def decisions(self, interrupt: DialectInterrupt) -> tuple[str, ...]:
        if interrupt.kind == "breakpoint":
            return (APPROVE,)
        schema = interrupt.schema
        if schema is None:
            has_no_payload = interrupt.payload is None
            return (
                (APPROVE, REJECT, RESPOND) if has_no_payload else (APPROVE, EDIT, REJECT, RESPOND)
            )
        if schema.get("type") == "boolean":
            return (APPROVE, REJECT)
        if asks_approval(schema):
            return (APPROVE, EDIT, REJECT)
        return (RESPOND,)

    def prefill(self, interrupt: DialectInterrupt) -> Any:
        """Return the initial value of a form. An edit changes this value.

        For an object schema, the value contains each property's value in the payload, or the
        property's default. Without a schema, the value is the payload itself.
        """
        if interrupt.schema is None:
            return interrupt.payload
        properties = json_schema.find_properties(interrupt.schema)
        if properties is None:
            return interrupt.schema.get("default")
        given = interrupt.payload if isinstance(interrupt.payload, dict) else {}
        start = {}
        for name, schema in properties.items():
            if name in given:
                start[name] = given[name]
            elif isinstance(schema, dict) and "default" in schema and not is_secret(schema):
                start[name] = schema["default"]
        return start

    def compose(self, interrupt: DialectInterrupt, type: str, value: Any) -> Any:  # noqa: A002
        schema, policy_values = interrupt.schema, interrupt.policy_values
        yes = type != REJECT
        if type == RESPOND or (type == EDIT and schema is None):
            value = require_value(type, value)
            return _fill_template(policy_values[type], value) if type in policy_values else value
        if schema is None or not asks_approval(schema):
            refuse_value(type, value)
            return (
                _fill_template(policy_values[type], interrupt.start)
                if type in policy_values
                else yes
            )
        if type == EDIT:
            return {**require_object(require_value(type, value)), APPROVED: True}
        changes = {} if value is UNSET else require_object(value)
        return {**interrupt.start, **changes, APPROVED: yes}

    def candidates(self, interrupt: DialectInterrupt, resume: Any) -> list[Candidate]:
        schema, policy_values = interrupt.schema, interrupt.policy_values
        if schema is None:
            edit = Candidate(
                EDIT, _extract_value(policy_values.get(EDIT, VALUE), resume, resume), ""
            )
            respond = Candidate(
                RESPOND, _extract_value(policy_values.get(RESPOND, VALUE), resume, resume), ""
            )
            same_type = type(edit.value) is type(interrupt.payload)
            return [edit, respond] if same_type else [respond, edit]
        if not asks_approval(schema) or not isinstance(resume, dict):
            return [Candidate(RESPOND, resume, "")]
        if resume.get(APPROVED) is True:
            return [Candidate(EDIT, resume, ""), Candidate(APPROVE, resume, "")]
        return [Candidate(REJECT, resume, "")]


def asks_approval(schema: dict[str, Any]) -> bool:
    """Return whether an object schema has a boolean member ``approved``."""
    approved = (json_schema.find_properties(schema) or {}).get(APPROVED)
    return isinstance(approved, dict) and approved.get("type") == "boolean"


def _extract_value(template: Any, answer: Any, otherwise: Any) -> Any:
    """Return the reviewer's value that a resume value contains.

    The reviewer's value is the part of the resume value ``answer`` at the position of the
    placeholder VALUE in ``template``. Return ``otherwise`` if there is no such part.
    """
    if template is VALUE:
        return answer
    parts: list[tuple[Any, Any]] = []
    if isinstance(template, dict) and isinstance(answer, dict):
        parts = [(part, answer[key]) for key, part in template.items() if key in answer]
    elif isinstance(template, list) and isinstance(answer, list):
        parts = list(zip(template, answer, strict=False))
    found = (_extract_value(part, inner, UNSET) for part, inner in parts)
    return next((value for value in found if value is not UNSET), otherwise)


def _fill_template(template: Any, value: Any) -> Any:
    if template is VALUE:
        return value
    if isinstance(template, dict):
        return {key: _fill_template(part, value) for key, part in template.items()}
    if isinstance(template, list):
        return [_fill_template(part, value) for part in template]
    return template
