"""Statistics on the requests and decisions of a period, by day, graph and reviewer.

The number of queries is fixed, and none of them reads a payload. The number of days, graphs and
reviewers limits the size of results. Deleted and archived threads are not counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connections
from django.db.models import Aggregate, Count, FloatField, Func, Max, Q, QuerySet
from django.db.models.functions import TruncDate
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import select_visible, select_visible_through
from hitl_django.services.reviews import queue_filters
from hitl_django.services.reviews.periods import Period, may_view_reviewer_reports, select_decided

from .models import SpotCheck

#: Maximum number of reviewers in a list. Reviewers with the most decisions are listed.
MAX_REVIEWERS = 100
#: Maximum number of decisions in the sample on databases without percentile functions.
SAMPLE = 20_000
#: Boundaries of the age buckets.
AGES = (
    timedelta(hours=1),
    timedelta(hours=4),
    timedelta(days=1),
    timedelta(days=3),
    timedelta(days=7),
)
SHARES = {"median": 0.5, "p90": 0.9}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeBucket:
    """The number of pending interrupts created from ``since`` to just before ``until``."""

    since: datetime | None
    until: datetime | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReport:
    """The requests and decisions of a day.

    The median and the 90th percentile are those of the seconds to a decision.
    """

    day: date
    asked: int
    decided: int
    median: float | None
    p90: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """The decisions of a graph or a reviewer, by type.

    ``key`` is the name of the graph, or the key of the reviewer. The key None stands for all people
    without an account. ``checked`` is the number of spot checks with a result, and ``agreed`` the
    number of those that agree.
    """

    key: Any
    label: str
    counts: Mapping[str, int]
    checked: int
    agreed: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReport:
    """The statistics of a period, limited to interrupts that the user may view.

    Times are the seconds from the creation of an interrupt to its decision. Times are computed from
    the latest ``sample`` decisions, or from all decisions if ``sample`` is None. ``reviewers`` is
    None if the user may not view insights by reviewer.
    """

    days: Sequence[DayReport]
    median: float | None
    p90: float | None
    sample: int | None
    graphs: Sequence[DecisionCounts]
    reviewers: Sequence[DecisionCounts] | None
    waiting: Sequence[AgeBucket]
    overdue: int

    @property
    def asked(self) -> int:
        """The number of interrupts that were created."""
        return sum(day.asked for day in self.days)

    @property
    def decided(self) -> int:
        """The number of interrupts that people decided."""
        return sum(day.decided for day in self.days)


class _Seconds(Func):
    template = "EXTRACT(EPOCH FROM (%(expressions)s))"
    arg_joiner = " - "
    output_field = FloatField()


class _Percentile(Aggregate):
    template = "PERCENTILE_CONT(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


_Times = tuple[float | None, float | None]
_NONE: _Times = (None, None)


def review_report(user: Any, period: Period, *, graph: str | None = None) -> ReviewReport:
    """Return the statistics of a period.

    ``graph`` limits the statistics to one graph. A user of None sees everything. Only decisions by
    people that closed an interrupt count, on the day of the decision. Pending and overdue counts
    are current, independent of the period.
    """
    decided = select_decided(user, period, graph=graph)
    asked, types = _count_asked(user, period, graph), _count_types(decided)
    times, sample = _time(decided)
    checks = _count_checks(user, period, graph)
    waiting = queue_filters.list_waiting(user, graph=graph)
    return ReviewReport(
        days=[
            DayReport(
                day=day,
                asked=asked[day],
                decided=types.by_day[day],
                median=times.get(day, _NONE)[0],
                p90=times.get(day, _NONE)[1],
            )
            for day in period.days
        ],
        median=times.get(None, _NONE)[0],
        p90=times.get(None, _NONE)[1],
        sample=sample,
        graphs=[
            _make_shares(name, name, counts, checks, lambda check: check.graph)
            for name, counts in sorted(types.by_graph.items())
        ],
        reviewers=_list_reviewers(decided, checks) if may_view_reviewer_reports(user) else None,
        waiting=_count_ages(waiting),
        overdue=sum(waiting.filter(part).count() for part in queue_filters.OVERDUE_PARTS),
    )


@dataclass(frozen=True, slots=True)
class _Types:
    by_day: Counter[date]
    by_graph: Mapping[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class _Checks:
    """The spot checks of one reviewer's approvals in one graph."""

    graph: str
    reviewer: Any
    checked: int
    agreed: int


def _count_asked(user: Any, period: Period, graph: str | None) -> Counter[date]:
    rows = Interrupt.objects.using(write_alias()).filter(period.match("created_at")).order_by()
    rows = select_visible(rows if graph is None else rows.filter(graph=graph), user)
    found = rows.annotate(day=TruncDate("created_at")).values_list("day").annotate(n=Count("pk"))
    return Counter(dict(found))


def _count_types(decided: QuerySet[Decision]) -> _Types:
    by_type = decided.annotate(day=TruncDate("created_at"))
    groups = by_type.values_list("day", "interrupt__graph", "type").annotate(n=Count("pk"))
    by_day: Counter[date] = Counter()
    by_graph: dict[str, Counter[str]] = defaultdict(Counter)
    for day, name, kind, count in groups:
        by_day[day] += count
        by_graph[name][kind] += count
    return _Types(by_day, by_graph)


def _time(decided: QuerySet[Decision]) -> tuple[dict[date | None, _Times], int | None]:
    """Return the times by day, and the number of decisions in the sample.

    The key None has the times of all days. If the number is None, all decisions were included.
    """
    day = TruncDate("created_at")
    if connections[decided.db].vendor == "postgresql":
        seconds = _Seconds("created_at", "interrupt__created_at")
        both = {name: _Percentile(seconds, share=share) for name, share in SHARES.items()}
        found: dict[date | None, _Times] = {
            each: (median, p90)
            for each, median, p90 in decided.annotate(day=day).values_list("day").annotate(**both)
        }
        whole = decided.aggregate(**both)
        found[None] = (whole["median"], whole["p90"])
        return found, None
    latest = decided.order_by("-created_at", "-id").annotate(day=day)
    lasted: dict[date | None, list[float]] = defaultdict(list)
    rows = list(latest.values_list("day", "interrupt__created_at", "created_at")[: SAMPLE + 1])
    for each, asked_at, decided_at in rows[:SAMPLE]:
        for key in (each, None):
            lasted[key].append((decided_at - asked_at).total_seconds())
    ordered = {key: sorted(values) for key, values in lasted.items()}
    median, p90 = SHARES.values()
    times: dict[date | None, _Times] = {
        key: (_percentile(values, median), _percentile(values, p90))
        for key, values in ordered.items()
    }
    return times, SAMPLE if len(rows) > SAMPLE else None


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile, interpolated like PostgreSQL's PERCENTILE_CONT."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def _count_checks(user: Any, period: Period, graph: str | None) -> list[_Checks]:
    rows = SpotCheck.objects.using(write_alias()).filter(period.match("created_at"))
    rows = select_visible_through(rows, "interrupt", user).exclude(result="").order_by()
    if graph is not None:
        rows = rows.filter(interrupt__graph=graph)
    agreed = Count("pk", filter=Q(result=SpotCheck.Result.AGREE))
    names = "interrupt__graph", "decision__by"
    found = rows.values_list(*names).annotate(n=Count("pk"), agreed=agreed)
    return [_Checks(*row) for row in found]


def _list_reviewers(decided: QuerySet[Decision], checks: list[_Checks]) -> list[DecisionCounts]:
    """Return the counts of the most active reviewers.

    All people without an account are one entry.
    """
    busiest = decided.values_list("by").annotate(n=Count("pk"), label=Max("by_label"))
    labels = {key: label for key, _n, label in busiest.order_by("-n")[:MAX_REVIEWERS]}
    counts: dict[Any, Counter[str]] = {key: Counter() for key in labels}
    for key, kind, count in decided.values_list("by", "type").annotate(n=Count("pk")):
        if key in counts:
            counts[key][kind] += count
    return [
        _make_shares(
            key, "" if key is None else labels[key], of, checks, lambda check: check.reviewer
        )
        for key, of in counts.items()
    ]


def _make_shares(
    key: Any,
    label: str,
    counts: Mapping[str, int],
    checks: Iterable[_Checks],
    key_of: Callable[[_Checks], Any],
) -> DecisionCounts:
    own = [check for check in checks if key_of(check) == key]
    return DecisionCounts(
        key=key,
        label=label,
        counts={name: counts.get(name, 0) for name in DECISION_TYPES},
        checked=sum(check.checked for check in own),
        agreed=sum(check.agreed for check in own),
    )


def _count_ages(waiting: QuerySet[Interrupt]) -> list[AgeBucket]:
    """Count the pending interrupts by age, youngest first, in one scan of an index."""
    now = timezone.now()
    bounds = [None, *(now - age for age in AGES), None]
    bands = [(since, until) for until, since in pairwise(bounds)]
    parts = {
        f"band{n}": Count("pk", filter=_match_between("created_at", since, until))
        for n, (since, until) in enumerate(bands)
    }
    found = waiting.aggregate(**parts)
    return [
        AgeBucket(since=since, until=until, count=found[name] or 0)
        for name, (since, until) in zip(parts, bands, strict=True)
    ]


def _match_between(name: str, since: datetime | None, until: datetime | None) -> Q:
    found = Q(pk__isnull=False)
    if since is not None:
        found &= Q(**{f"{name}__gte": since})
    if until is not None:
        found &= Q(**{f"{name}__lt": until})
    return found
