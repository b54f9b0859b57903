"""Questions that are plain JSON: the answer is what the response schema says, or any JSON.

    response schema           approve              reject               edit          respond
    ------------------------  -------------------  -------------------  ------------  -------
    none                      true                 false                the value     the value
    a boolean                 true                 false
    object with ``approved``  prefill | value      prefill | value      the value
                              + approved: true     + approved: false    + approved: true
    any other                                                                         the value
    (a breakpoint)            true

Without a schema a graph's policy may put other resume values in the place of these four.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl_django.graph_registry.review_policy import VALUE
from hitl_django.json_text import json_schema

from ..decision_types import (
    APPROVE,
    EDIT,
    REJECT,
    RESPOND,
    UNSET,
    Meant,
    an_object,
    no_value,
    required,
)

APPROVED = "approved"


def decisions(
    payload: Any, schema: dict[str, Any] | None, kind: str = "interrupt"
) -> tuple[str, ...]:
    """Lists the decisions that the question can be given, in the order to offer them."""
    if kind == "breakpoint":
        return (APPROVE,)
    if schema is None:
        nothing_to_edit = payload is None
        return (APPROVE, REJECT, RESPOND) if nothing_to_edit else (APPROVE, EDIT, REJECT, RESPOND)
    if schema.get("type") == "boolean":
        return (APPROVE, REJECT)
    if asks_approval(schema):
        return (APPROVE, EDIT, REJECT)
    return (RESPOND,)


def prefill(payload: Any, response_schema: dict[str, Any] | None) -> Any:
    """Returns what a form starts with.

    For an object schema each property's value of the same name in the payload, or its default;
    without a schema the payload itself, which is what an edit edits.
    """
    if response_schema is None:
        return payload
    properties = json_schema.properties(response_schema)
    if properties is None:
        return response_schema.get("default")
    given = payload if isinstance(payload, dict) else {}
    start = {}
    for name, schema in properties.items():
        if name in given:
            start[name] = given[name]
        elif isinstance(schema, dict) and "default" in schema:
            start[name] = schema["default"]
    return start


def compose(
    start: Any,
    schema: dict[str, Any] | None,
    instead: Mapping[str, Any],
    type: str,  # noqa: A002
    value: Any,
) -> Any:
    """Returns the resume value of a decision; ``start`` is what stands there to be decided."""
    yes = type != REJECT
    if type == RESPOND or (type == EDIT and schema is None):
        return _instead(instead, type, required(type, value))
    if schema is None or not asks_approval(schema):
        no_value(type, value)
        return yes if type not in instead else _instead(instead, type, start)
    if type == EDIT:
        return {**an_object(required(type, value)), APPROVED: True}
    changes = {} if value is UNSET else an_object(value)
    return {**start, **changes, APPROVED: yes}


def read(
    payload: Any, schema: dict[str, Any] | None, instead: Mapping[str, Any], resume: Any
) -> list[Meant]:
    """Returns the decisions that may have come to a resume value, the likeliest first."""
    if schema is None:
        edit = Meant(EDIT, _given(instead.get(EDIT, VALUE), resume, resume), "")
        respond = Meant(RESPOND, _given(instead.get(RESPOND, VALUE), resume, resume), "")
        return [edit, respond] if type(edit.value) is type(payload) else [respond, edit]
    if not asks_approval(schema) or not isinstance(resume, dict):
        return [Meant(RESPOND, resume, "")]
    if resume.get(APPROVED) is True:
        return [Meant(EDIT, resume, ""), Meant(APPROVE, resume, "")]
    return [Meant(REJECT, resume, "")]


def asks_approval(schema: dict[str, Any]) -> bool:
    """Says whether the answer is an object that says ``approved`` or not."""
    approved = (json_schema.properties(schema) or {}).get(APPROVED)
    return isinstance(approved, dict) and approved.get("type") == "boolean"


def _instead(instead: Mapping[str, Any], type: str, value: Any) -> Any:  # noqa: A002
    return _filled(instead[type], value) if type in instead else value


def _given(template: Any, answer: Any, otherwise: Any) -> Any:
    """Returns what an answer has where its template has VALUE."""
    if template is VALUE:
        return answer
    parts: list[tuple[Any, Any]] = []
    if isinstance(template, dict) and isinstance(answer, dict):
        parts = [(part, answer[key]) for key, part in template.items() if key in answer]
    elif isinstance(template, list) and isinstance(answer, list):
        parts = list(zip(template, answer, strict=False))
    found = (_given(part, inner, UNSET) for part, inner in parts)
    return next((value for value in found if value is not UNSET), otherwise)


def _filled(template: Any, value: Any) -> Any:
    if template is VALUE:
        return value
    if isinstance(template, dict):
        return {key: _filled(part, value) for key, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, value) for part in template]
    return template
