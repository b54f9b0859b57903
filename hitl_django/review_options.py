"""The function ``review()`` and its options.

The engine passes the options to the checkpoint saver unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS
from hitl_django.engine.arguments import check_names, check_switch
from hitl_django.engine.payload import check_json
from hitl_django.engine.types import Expiry

AnswerT = TypeVar("AnswerT")

HIGHEST_QUORUM = 1000
PRIORITIES = range(-32_768, 32_768)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """The review options of an interrupt.

    For an option that is None, the default in the graph's review policy applies.
    """

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
            if (given := getattr(self, name)) is not None:
                check_names(name, given)
        for name in ("no_self_approval", "claim_required"):
            if (given := getattr(self, name)) is not None:
                check_switch(name, given)
        check_decisions(self.decisions)
        check_quorum(self.quorum)
        check_dialect(self.dialect)
        if self.priority is not None and (
            type(self.priority) is not int or self.priority not in PRIORITIES
        ):
            raise ValueError(
                f"priority must be an integer from -32768 to 32767, not {self.priority!r}."
            )
        if isinstance(self.due, datetime):
            if self.due.tzinfo is None:
                raise ValueError("due must be a timezone-aware datetime or a timedelta.")
        elif self.due is not None:
            if not isinstance(self.due, timedelta):
                raise TypeError(f"due must be a timedelta or a datetime, not {self.due!r}.")
            if self.due <= timedelta(0):
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
    """Pause the node for a review, like ``interrupt()``, with options for the review queue.

    The options are not part of the payload or the response. The options may differ when the node
    runs again.

    Args:
        payload: the content shown to the reviewer, a JSON value.
        title: the heading. By default, the heading is derived from the payload.
        why: the reason for the review.
        response_schema: a JSON Schema, or a type, for the response.
        decisions: the decision types to offer, out of "approve", "edit", "reject" and "respond".
        editable: the members of the edited value that an edit may change, as names or JSON
            pointers. By default, all members.
        group: the name of the group to which the interrupt is assigned. If the group doesn't exist,
            the interrupt is unassigned.
        assignee: the name of the user to whom the interrupt is assigned. If the user doesn't exist,
            the interrupt is unassigned.
        due: the time after which the interrupt is overdue, as a duration or a datetime.
        expires: the time limit, as for ``interrupt()``.
        priority: interrupts with a higher priority come first.
        quorum: the number of approvals needed. All of them must approve the same version.
        no_self_approval: whether the user who started the run is excluded from approving.
        claim_required: whether only a user with a claim may decide.
        dialect: the payload format. By default, the format is recognized from the payload.
        key: identifies the interrupt when the node runs again.

    Raises:
        ValueError: an option has an invalid value.
        TypeError: an option has an invalid type.

    The function also raises the errors of ``interrupt()``.
    """
    options = ReviewOptions(
        title=title, why=why, decisions=decisions, editable=editable, group=group,
        assignee=assignee, due=due, priority=priority, quorum=quorum,
        no_self_approval=no_self_approval, claim_required=claim_required, dialect=dialect,
    )  # fmt: skip
    from hitl_django.engine.task.node_api import ask

    return ask(payload, response_schema, key, expires, options)


def check_decisions(names: Sequence[str] | None) -> None:
    """Raise ValueError unless all names are decision types and there is at least one name."""
    if names is None:
        return
    if not names or any(name not in DECISION_TYPES for name in names):
        known = ", ".join(DECISION_TYPES)
        raise ValueError(f"decisions must be some of {known}, not {list(names)!r}.")


def check_quorum(quorum: Any) -> None:
    """Raise ValueError unless the argument is a valid number of approvals."""
    if quorum is None:
        return
    if type(quorum) is not int or not 1 <= quorum <= HIGHEST_QUORUM:
        raise ValueError(f"quorum must be from 1 to {HIGHEST_QUORUM}, not {quorum!r}.")


def check_dialect(dialect: str | None) -> None:
    """Raise ValueError unless the argument is None or the name of a dialect."""
    if dialect is not None and dialect not in list(DIALECTS):  # The argument may be unhashable.
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}.")
