"""Periods of days, and the decisions made in a period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Exists, Q, QuerySet
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import EXPIRE
from hitl_django.engine.errors import InvalidInputError
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import get_policy, select_visible, select_visible_through

#: Maximum length of a period in days.
MAX_DAYS = 366
#: Outside of these years, converting between time zones can exceed the range of dates.
YEARS = range(1900, 9000)
#: As a reviewer, selects the decisions by people without an account.
NOBODY = "none"


@dataclass(frozen=True, slots=True)
class Period:
    """A range of days, including the first and the last day."""

    first: date
    last: date

    @classmethod
    def build(cls, first: date, last: date, *, max_days: int | None = MAX_DAYS) -> Period:
        """Return the period from ``first`` to ``last``.

        Raises:
            InvalidInputError: if the last day is before the first, or the period is longer than
                ``max_days``.
        """
        if first.year not in YEARS or last.year not in YEARS:
            raise InvalidInputError("Invalid period.", [("last", "is not a valid date")])
        if last < first:
            raise InvalidInputError(
                "The end date is before the start date.", [("last", "is before the start date")]
            )
        if max_days is not None and (last - first).days >= max_days:
            reason = f"is more than {max_days} days after the start date"
            raise InvalidInputError("The period is too long.", [("last", reason)])
        return cls(first, last)

    @property
    def days(self) -> list[date]:
        """The days of the period, in order."""
        return [self.first + timedelta(n) for n in range((self.last - self.first).days + 1)]

    def match(self, name: str) -> Q:
        """Return a condition on rows: the time in the column ``name`` is in the period.

        Days are those of the current time zone.
        """
        bounds = {f"{name}__gte": start_of_day(self.first)}
        return Q(**bounds, **{f"{name}__lt": start_of_day(self.last + timedelta(1))})


def list_graphs_with_interrupts(user: Any) -> list[str]:
    """Return the registered graphs that have pending or closed interrupts visible to the user."""
    names = registry.list_names()
    rows = select_visible(Interrupt.objects.using(write_alias()).order_by(), user)
    if not names or rows.query.is_empty():
        return []
    # Use one query, which looks for one row of each graph in the index that begins with the graph.
    own = get_user_model()._base_manager.using(write_alias()).filter(pk=user.pk)
    found = own.values_list(*(Exists(rows.filter(graph=name)) for name in names)).first()
    return [name for name, has_rows in zip(names, found or (), strict=False) if has_rows]


def select_decided(user: Any, period: Period, *, graph: str | None = None) -> QuerySet[Decision]:
    """Return the decisions that people made in the period and that closed an interrupt.

    Only interrupts visible to the user are considered.
    """
    made = Decision.objects.using(write_alias()).filter(period.match("created_at"), effective=True)
    made = select_visible_through(made.exclude(type=EXPIRE), "interrupt", user)
    return (made if graph is None else made.filter(interrupt__graph=graph)).order_by()


def match_reviewer(reviewer: Any, column: str = "by") -> Q:
    """Return a condition on rows: the column refers to the user with the key ``reviewer``.

    With NOBODY, rows with an empty column match. With None, every row matches. A key that no user
    can have matches no row.
    """
    if reviewer is None:
        return Q()
    if reviewer == NOBODY:
        return Q(**{f"{column}__isnull": True})
    try:
        # Look the user up, because a lookup of a foreign key doesn't reject invalid keys.
        return Q(**{f"{column}__in": get_user_model()._base_manager.filter(pk=reviewer)})
    except (TypeError, ValueError, ValidationError):
        return Q(pk__in=[])


def may_view_reviewer_reports(user: Any) -> bool:
    """Return whether the user may view statistics of individual reviewers.

    For None, i.e. for code without a user, the result is True.
    """
    return user is None or get_policy().may_view_reviewer_insights(user)


def start_of_day(day: date) -> datetime:
    """Return the time at which a day begins in the current time zone."""
    moment = datetime.combine(day, time.min)
    return timezone.make_aware(moment) if settings.USE_TZ else moment
