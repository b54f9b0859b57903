"""What goes along with a question, for whoever presents it: the engine only passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .payload import check_json

#: What a person can do with a question, in the order to offer it.
DECISIONS = ("approve", "edit", "reject", "respond")

#: The shapes in which questions are asked and answered.
DIALECTS = ("raw", "human_interrupt", "hitl_request", "tool_call", "tool_approval")

HIGHEST_QUORUM = 1000
PRIORITIES = range(-32_768, 32_768)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTerms:
    """Who is asked, why, and what they may do; None is what the graph's policy says."""

    title: str | None = None
    why: str = ""
    decisions: Sequence[str] | None = None
    editable: Sequence[str] | None = None
    group: str | None = None
    assignee: str | None = None
    due: timedelta | datetime | None = None
    priority: int | None = None
    quorum: int | None = None
    no_self_approval: bool | None = None
    claim_required: bool | None = None
    dialect: str | None = None

    def __post_init__(self) -> None:
        for name in ("title", "why", "group", "assignee"):
            given = getattr(self, name)
            if given is not None:
                if not isinstance(given, str):
                    raise TypeError(f"{name} is a str, not {type(given).__name__}.")
                check_json(given, f"The question's {name}")
        for name in ("decisions", "editable"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise TypeError(f"{name} is a list of names, not the str {given!r}.")
        check_decisions(self.decisions)
        check_quorum(self.quorum)
        check_dialect(self.dialect)
        if self.priority is not None and self.priority not in PRIORITIES:
            raise ValueError(f"priority is a number from -32768 to 32767, not {self.priority!r}.")
        if isinstance(self.due, datetime):
            if self.due.tzinfo is None:
                raise ValueError("due is a datetime with a time zone, or a timedelta.")
        elif self.due is not None and self.due <= timedelta(0):
            raise ValueError("A question is due after a time of more than 0.")


def check_decisions(names: Sequence[str] | None) -> None:
    """Raises ValueError unless these are decisions, of which there is one at least."""
    if names is None:
        return
    unknown = [name for name in names if name not in DECISIONS]
    if unknown or not names:
        raise ValueError(f"decisions are some of {', '.join(DECISIONS)}, not {list(names)!r}.")


def check_quorum(quorum: Any) -> None:
    """Raises ValueError unless it is a number of people."""
    if quorum is None:
        return
    if type(quorum) is not int or not 1 <= quorum <= HIGHEST_QUORUM:
        raise ValueError(f"quorum is a number from 1 to {HIGHEST_QUORUM}, not {quorum!r}.")


def check_dialect(dialect: str | None) -> None:
    """Raises ValueError unless it names a dialect."""
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"dialect is one of {', '.join(DIALECTS)}, not {dialect!r}.")
