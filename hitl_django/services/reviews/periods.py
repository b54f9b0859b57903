"""Periods of days, and the decisions that were made in one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Exists, Q, QuerySet
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import EXPIRE
from hitl_django.engine.errors import InvalidInputError
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import get_policy, select_visible, select_visible_through

#: The longest time that is looked at.
MAX_DAYS = 366
#: Beyond these, time zones lead out of the calendar.
YEARS = range(1900, 9000)


@dataclass(frozen=True, slots=True)
class Period:
    """Days in a row, the first and the last included."""

    first: date
    last: date

    @classmethod
    def build(cls, first: date, last: date, *, max_days: int | None = MAX_DAYS) -> Period:
        """Return the period; InvalidInputError where it ends before it begins, or is too long."""
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
        """All days of it."""
        return [self.first + timedelta(n) for n in range((self.last - self.first).days + 1)]

    def match(self, name: str) -> Q:
        """Match the rows whose column is in it, by days of the current time zone."""
        bounds = {f"{name}__gte": start_of_day(self.first)}
        return Q(**bounds, **{f"{name}__lt": start_of_day(self.last + timedelta(1))})


def list_graphs_with_interrupts(user: Any) -> list[str]:
    """Return the registered graphs that ever asked something which the user may see."""
    names = registry.list_names()
    rows = select_visible(Interrupt.objects.using(write_alias()).order_by(), user)
    if not names or rows.query.is_empty():
        return []
    # One query that looks for one row of each, in the index that begins with the graph.
    own = get_user_model()._base_manager.using(write_alias()).filter(pk=user.pk)
    found = own.values_list(*(Exists(rows.filter(graph=name)) for name in names)).first()
    return [name for name, is_asked in zip(names, found or (), strict=False) if is_asked]


def select_decided(user: Any, period: Period, *, graph: str | None = None) -> QuerySet[Decision]:
    """Select the decisions of people that closed a question in a period."""
    made = Decision.objects.using(write_alias()).filter(period.match("created_at"), effective=True)
    made = select_visible_through(made.exclude(type=EXPIRE), "interrupt", user)
    return (made if graph is None else made.filter(interrupt__graph=graph)).order_by()


def may_view_reviewer_reports(user: Any) -> bool:
    """Return whether the user may see figures of each reviewer; a user of None may."""
    return user is None or get_policy().may_view_reviewer_insights(user)


def start_of_day(day: date) -> datetime:
    """Return the moment at which a day begins, in the current time zone."""
    moment = datetime.combine(day, time.min)
    return timezone.make_aware(moment) if settings.USE_TZ else moment
