"""Dialects: payload formats of interrupts, each in a separate module."""

from __future__ import annotations

import logging
from typing import Any

from .action_titles import (
    describe_action,
    describe_actions,
    format_argument,
    humanise_name,
    is_middleware_node,
)
from .approval_request import ApprovalRequestDialect
from .dialect import Dialect, RequestedAction
from .hitl_request import HitlRequestDialect
from .human_interrupt import HumanInterruptDialect
from .plain_json import APPROVED, PlainJsonDialect
from .tool_approval import ToolApprovalDialect
from .tool_call import ToolCallDialect
from .value_checks import UNSET

__all__ = [
    "APPROVED",
    "DIALECTS",
    "RAW",
    "UNSET",
    "Dialect",
    "RequestedAction",
    "describe_action",
    "describe_actions",
    "format_argument",
    "humanise_name",
    "is_middleware_node",
    "recognise_dialect",
]

logger = logging.getLogger("hitl_django")

RAW = PlainJsonDialect.name

#: Dialects by name. The first dialect that recognizes a payload is used.
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        PlainJsonDialect(),
        HumanInterruptDialect(),
        HitlRequestDialect(),
        ApprovalRequestDialect(),
        ToolCallDialect(),
        ToolApprovalDialect(),
    )
}


def recognise_dialect(
    payload: Any,
    schema: dict[str, Any] | None = None,
    kind: str = "interrupt",
    named: str | None = None,
) -> str:
    """Return the name of an interrupt's dialect, i.e. of its payload format.

    If ``named`` is given and the payload matches this dialect, the result is ``named``. Without
    ``named``, the result is the first dialect that meets these conditions:

    - The dialect may be recognized without being named.
    - The payload matches the dialect.
    - The response schema ``schema``, if given, belongs to the dialect.

    In all other cases, the result is plain JSON. The result is also plain JSON if the interrupt is
    a breakpoint, i.e. if ``kind`` is not "interrupt".
    """
    if named is not None:
        if DIALECTS[named].matches(payload):
            return named
        logger.warning("payload looks like %s but is invalid; it is shown as plain JSON", named)
        return RAW
    if kind != "interrupt":
        return RAW
    for one in DIALECTS.values():
        is_answerable = one.is_recognised and (schema is None or one.takes_schema(schema))
        if is_answerable and one.matches(payload):
            return one.name
    return RAW
