"""What may be done with a question, and which resume value each decision comes to.

Pure: the same payload, schema, decision and value always compose to the same answer, so the admin
can show before what the service stores after.

    response schema           approve              reject               edit          respond
    ------------------------  -------------------  -------------------  ------------  -------
    none                      true                 false                the value     the value
    a boolean                 true                 false
    object with ``approved``  prefill | value      prefill | value      the value
                              + approved: true     + approved: false    + approved: true
    any other                                                                         the value
    (a breakpoint)            true
"""

from __future__ import annotations

import json
from typing import Any, Final, final

from . import schemas
from .conf import hitl
from .engine.errors import InvalidAnswerError, PayloadLimitError
from .engine.payload import check_json
from .text import question_title

__all__ = ["UNSET", "allowed_decisions", "compose", "prefill", "question_title"]

APPROVE, EDIT, REJECT, RESPOND = "approve", "edit", "reject", "respond"
APPROVED = "approved"


@final
class Unset:
    """Tells "no value was given" from the value None."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


def allowed_decisions(
    payload: Any, response_schema: dict[str, Any] | None, kind: str = "interrupt"
) -> tuple[str, ...]:
    """Lists the decisions that the question can be given, in the order to offer them."""
    if kind == "breakpoint":
        return (APPROVE,)
    if response_schema is None:
        nothing_to_edit = payload is None
        return (APPROVE, REJECT, RESPOND) if nothing_to_edit else (APPROVE, EDIT, REJECT, RESPOND)
    if response_schema.get("type") == "boolean":
        return (APPROVE, REJECT)
    if _asks_approval(response_schema):
        return (APPROVE, EDIT, REJECT)
    return (RESPOND,)


def compose(
    payload: Any,
    response_schema: dict[str, Any] | None,
    kind: str,
    type: str,  # noqa: A002  (the word of the API)
    value: Any = UNSET,
) -> Any:
    """Returns the resume value of a decision, checked against limits and the response schema.

    Raises InvalidAnswerError with a JSON pointer to each fault, UnserializableError for what isn't
    JSON and PayloadLimitError for what is too large.
    """
    allowed = allowed_decisions(payload, response_schema, kind)
    if type not in allowed:
        raise InvalidAnswerError(
            f"This question can't be answered by {type!r}. It takes {', '.join(allowed)}."
        )
    if value is not UNSET:
        check_limits(value)
    answer = _answer(payload, response_schema, type, value)
    if response_schema is not None:
        faults = schemas.faults(response_schema, answer)
        if faults:
            raise InvalidAnswerError(_sentence(faults), faults)
    return answer


def prefill(payload: Any, response_schema: dict[str, Any] | None) -> Any:
    """Returns what a form starts with.

    For an object schema each property's value of the same name in the payload, or its default;
    without a schema the payload itself, which is what an edit edits.
    """
    if response_schema is None:
        return payload
    properties = schemas.properties(response_schema)
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


def _answer(payload: Any, schema: dict[str, Any] | None, type: str, value: Any) -> Any:  # noqa: A002
    yes = type != REJECT
    if type == RESPOND or (type == EDIT and schema is None):
        return _required(type, value)
    if schema is None or not _asks_approval(schema):
        if value is not UNSET:
            raise InvalidAnswerError(
                f"To {type} this question takes no value.", [("", "no value is expected")]
            )
        return yes
    if type == EDIT:
        return {**_object(_required(type, value)), APPROVED: True}
    changes = {} if value is UNSET else _object(value)
    return {**prefill(payload, schema), **changes, APPROVED: yes}


def _required(type: str, value: Any) -> Any:  # noqa: A002
    if value is UNSET:
        raise InvalidAnswerError(f"To {type} needs a value.", [("", "a value is required")])
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidAnswerError("The value is not an object.", [("", "an object is expected")])
    return value


def _asks_approval(schema: dict[str, Any]) -> bool:
    approved = (schemas.properties(schema) or {}).get(APPROVED)
    return isinstance(approved, dict) and approved.get("type") == "boolean"


def check_limits(value: Any) -> None:
    depth, items = _extent(value)
    _limit("levels deep", depth, hitl.ANSWER_MAX_DEPTH)
    _limit("values", items, hitl.ANSWER_MAX_ITEMS)
    check_json(value, "The answer")
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    _limit("bytes", size, hitl.ANSWER_MAX_BYTES)


def _limit(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise PayloadLimitError(
            f"The answer is {found} {what}; {limit} are allowed.", limit=limit, found=found
        )


def _extent(value: Any) -> tuple[int, int]:
    """Measures nesting and number of values, level by level, so that no depth overflows a stack."""
    depth = items = 0
    level = [value]
    while level and depth <= hitl.ANSWER_MAX_DEPTH and items <= hitl.ANSWER_MAX_ITEMS:
        items += len(level)
        containers = [part for part in level if isinstance(part, dict | list | tuple)]
        depth += bool(containers)
        level = [
            part
            for container in containers
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    return depth, items


def _sentence(faults: list[tuple[str, str]]) -> str:
    pointer, reason = faults[0]
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"The answer doesn't fit: {pointer or 'the value'}: {reason}{more}."
