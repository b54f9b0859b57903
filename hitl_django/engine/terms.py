"""What goes along with a question, for whoever presents it: the engine only passes it on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .payload import check_json

#: The names that terms may use, as whoever presents questions has registered them.
_decisions: Collection[str] | None = None
_dialects: Collection[str] | None = None

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


def register_decisions(names: Collection[str]) -> None:
    """Sets the names of decisions that terms may use; before that, they may use any."""
    global _decisions
    _decisions = names


def register_dialects(names: Collection[str]) -> None:
    """Sets the names of dialects that terms may use; before that, they may use any."""
    global _dialects
    _dialects = names


def check_decisions(names: Sequence[str] | None) -> None:
    """Raises ValueError unless these are decisions, of which there is one at least."""
    if names is None:
        return
    known = names if _decisions is None else _decisions
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"decisions are some of {', '.join(known)}, not {list(names)!r}.")


def check_quorum(quorum: Any) -> None:
    """Raises ValueError unless it is a number of people."""
    if quorum is None:
        return
    if type(quorum) is not int or not 1 <= quorum <= HIGHEST_QUORUM:
        raise ValueError(f"quorum is a number from 1 to {HIGHEST_QUORUM}, not {quorum!r}.")


def check_dialect(dialect: str | None) -> None:
    """Raises ValueError unless it names a dialect."""
    if dialect is None or _dialects is None:
        return
    if dialect not in _dialects:
        raise ValueError(f"dialect is one of {', '.join(_dialects)}, not {dialect!r}.")
