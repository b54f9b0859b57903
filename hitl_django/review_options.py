"""``review()``, and the terms in which it asks people; the engine only passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack, overload

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.engine.payload import check_json
from hitl_django.engine.task.node_api import AnswerT, ask
from hitl_django.engine.types import Expiry

HIGHEST_QUORUM = 1000
PRIORITIES = range(-32_768, 32_768)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
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
                    raise TypeError(f"{name} must be a str, not {type(given).__name__}.")
                check_json(given, f"The {name}")
        for name in ("decisions", "editable"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise TypeError(f"{name} must be a list of names, not the str {given!r}.")
        check_decisions(self.decisions)
        check_quorum(self.quorum)
        check_dialect(self.dialect)
        if self.priority is not None and self.priority not in PRIORITIES:
            raise ValueError(
                f"priority must be an integer from -32768 to 32767, not {self.priority!r}."
            )
        if isinstance(self.due, datetime):
            if self.due.tzinfo is None:
                raise ValueError("due must be a timezone-aware datetime or a timedelta.")
        elif self.due is not None and self.due <= timedelta(0):
            raise ValueError("due must be a positive duration.")


class _Options(TypedDict, total=False):
    title: str | None
    why: str
    decisions: Sequence[str] | None
    editable: Sequence[str] | None
    group: str | None
    assignee: str | None
    due: timedelta | datetime | None
    expires: Expiry | timedelta | None
    priority: int | None
    quorum: int | None
    no_self_approval: bool | None
    claim_required: bool | None
    dialect: str | None
    key: str | None


@overload
def review(
    payload: Any, *, response_schema: type[AnswerT], **options: Unpack[_Options]
) -> AnswerT: ...


@overload
def review(payload: Any, *, response_schema: Any = None, **options: Unpack[_Options]) -> Any: ...


def review(
    payload: Any,
    *,
    title: str | None = None,
    why: str = "",
    response_schema: Any = None,
    decisions: Sequence[str] | None = None,
    editable: Sequence[str] | None = None,
    group: str | None = None,
    assignee: str | None = None,
    due: timedelta | datetime | None = None,
    expires: Expiry | timedelta | None = None,
    priority: int | None = None,
    quorum: int | None = None,
    no_self_approval: bool | None = None,
    claim_required: bool | None = None,
    dialect: str | None = None,
    key: str | None = None,
) -> Any:
    """Stop the node to ask people, as ``interrupt()`` does, and says how they are to be asked.

    ``payload`` is what they see, ``response_schema`` what the answer must look like, ``key`` the
    name to ask under. What else is given travels beside the question: it changes neither what is
    asked nor what is answered, so it may differ when the node runs again.

    ``title`` and ``why`` are the words that head it. ``decisions`` are those of "approve", "edit",
    "reject" and "respond" that are offered, of those that the question can be given; ``editable``
    names the members (or JSON pointers into what is edited) that an edit may change. ``group`` and
    ``assignee`` are the names of a group and a user; a question for one that doesn't exist is
    anybody's. It is ``due`` after a time or at a moment, and ``expires`` like that of
    ``interrupt()`` (a bare time parks the run). The higher its ``priority``, the sooner it comes
    up. ``quorum`` is how many people have to approve the same version; with ``no_self_approval``
    whoever started the run is none of them; with ``claim_required`` only who has claimed it may
    decide it. ``dialect`` says in which shape it is asked and answered where that isn't to be told
    from the payload.

    Raises what ``interrupt()`` raises, and ValueError or TypeError for terms that mean nothing.
    """
    terms = ReviewOptions(
        title=title, why=why, decisions=decisions, editable=editable, group=group,
        assignee=assignee, due=due, priority=priority, quorum=quorum,
        no_self_approval=no_self_approval, claim_required=claim_required, dialect=dialect,
    )  # fmt: skip
    if isinstance(expires, timedelta):
        expires = Expiry(expires)
    return ask(payload, response_schema, key, expires, terms)


def check_decisions(names: Sequence[str] | None) -> None:
    """Raise ValueError unless these are decisions, of which there is one at least."""
    if names is None:
        return
    if not names or any(name not in DECISION_TYPES for name in names):
        known = ", ".join(DECISION_TYPES)
        raise ValueError(f"decisions must be some of {known}, not {list(names)!r}.")


def check_quorum(quorum: Any) -> None:
    """Raise ValueError unless it is a number of people."""
    if quorum is None:
        return
    if type(quorum) is not int or not 1 <= quorum <= HIGHEST_QUORUM:
        raise ValueError(f"quorum must be from 1 to {HIGHEST_QUORUM}, not {quorum!r}.")


def check_dialect(dialect: str | None) -> None:
    """Raise ValueError unless it names a dialect."""
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}.")
