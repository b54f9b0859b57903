"""The shapes in which questions are asked and answered, by name."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from ..decision_types import Meant
from . import hitl_request, human_interrupt, tool_approval, tool_call

logger = logging.getLogger("hitl_django")

RAW = "raw"


class Dialect(Protocol):
    """What is known of a dialect; each is a module."""

    def speaks(self, payload: Any) -> bool:
        """Says whether a payload is a question in this dialect."""
        ...

    def title(self, payload: Any) -> str:
        """Says in a line what is asked."""
        ...

    def why(self, payload: Any) -> str:
        """Returns the payload's words on it."""
        ...

    def decisions(self, payload: Any) -> tuple[str, ...]:
        """Lists what the payload allows, in the order to offer it."""
        ...

    def start(self, payload: Any) -> Any:
        """Returns what an edit edits."""
        ...

    def edited(self, payload: Any, value: Any) -> Any:
        """Returns what the value of an edit makes of that."""
        ...

    def compose(self, payload: Any, type: str, value: Any) -> Any:  # noqa: A002
        """Returns the resume value of a decision that is allowed."""
        ...

    def read(self, payload: Any, resume: Any) -> list[Meant]:
        """Returns the decisions that may have come to a resume value."""
        ...


NAMED: dict[str, Dialect] = {
    "human_interrupt": human_interrupt,
    "hitl_request": hitl_request,
    "tool_call": tool_call,
    "tool_approval": tool_approval,
}

#: Those that a payload is taken for without being named.
RECOGNISED = ("human_interrupt", "hitl_request", "tool_call")


def recognise(
    payload: Any,
    schema: dict[str, Any] | None = None,
    kind: str = "interrupt",
    named: str | None = None,
) -> str:
    """Names the dialect of a question.

    A response schema is a statement of its own on how to answer, so what has one is raw JSON. So
    is what only resembles a dialect, and what doesn't have the shape of the one that was named.
    """
    if named is not None:
        if named == RAW or NAMED[named].speaks(payload):
            return named
        logger.warning("a question that should be a %s isn't one: it is asked as JSON", named)
        return RAW
    if schema is not None or kind != "interrupt":
        return RAW
    return next((name for name in RECOGNISED if NAMED[name].speaks(payload)), RAW)
