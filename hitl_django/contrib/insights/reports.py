"""Statistics on the interrupts and decisions of a period, by time, graph and reviewer.

A short period is divided into days, a longer period into weeks or months. The number of queries is
fixed, and no query reads a payload. The number of graphs and reviewers in a result is limited.
Deleted and archived threads are not counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connections
from django.db.models import (
    Aggregate,
    Case,
    Count,
    DateField,
    F,
    FloatField,
    Func,
    Max,
    Min,
    Q,
    QuerySet,
    When,
)
from django.db.models.functions import Trunc
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import select_visible, select_visible_through
from hitl_django.services.reviews import queue_filters
from hitl_django.services.reviews.periods import (
    NOBODY,
    Period,
    match_reviewer,
    may_view_reviewer_reports,
    select_decided,
    start_of_day,
)
from hitl_django.worker.retention import find_shortest_retention_period

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
#: Units into which a period is divided, each with the maximum number of days.
UNITS = {"day": 31, "week": 182, "month": 366}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeBucket:
    """The number of pending interrupts created from ``since`` to ``until``, excluding ``until``."""

    since: datetime | None
    until: datetime | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBucket:
    """The interrupts and decisions of a day, a week or a month.

    If only a part of the bucket is in the period, ``first`` and ``last`` are the first and the last
    day of this part. The median and the 90th percentile refer to the seconds from the creation of
    an interrupt to its decision.
    """

    first: date
    last: date
    created: int
    decided: int
    median: float | None
    p90: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """The decisions of a graph or a reviewer, by type.

    ``key`` is the name of the graph, or the key of the reviewer. The key None represents all people
    without an account. ``checked`` is the number of spot checks with a result. ``agreed`` is the
    number of spot checks whose result agrees with the approval.
    """

    key: Any
    label: str
    counts: Mapping[str, int]
    late: int
    median: float | None
    p90: float | None
    checked: int
    agreed: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def approved(self) -> int:
        """The number of approvals, with and without changes."""
        return sum(n for name, n in self.counts.items() if DECISION_TYPES[name].is_approval)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCounts:
    """The number of decisions on interrupts with a due time, and the number of late decisions.

    A decision is late if it was made after the due time of the interrupt.
    """

    due: int
    late: int

    @property
    def on_time(self) -> int:
        """The number of decisions made no later than the due time."""
        return self.due - self.late


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousPeriod(DueCounts):
    """The statistics of the period before the report's period, for comparison.

    The previous period has the same length and ends when the report's period begins. Exception:
    if the report's period isn't over, the previous period ends earlier, so that it is as long as
    the elapsed part of the report's period.
    """

    first: date
    last: date
    created: int
    decided: int
    approved: int
    median: float | None
    p90: float | None
    checked: int
    agreed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReport(DueCounts):
    """The statistics of a period, limited to interrupts that the user may view.

    Times are the seconds from the creation of an interrupt to its decision. Times are computed from
    the latest ``sample`` decisions, or from all decisions if ``sample`` is None. ``reviewers`` is
    None if the user may not view insights by reviewer.

    ``oldest`` is the creation time of the oldest pending interrupt. ``previous`` is None if the
    retention settings remove threads of the previous period.
    """

    unit: str
    buckets: Sequence[TimeBucket]
    median: float | None
    p90: float | None
    sample: int | None
    graphs: Sequence[DecisionCounts]
    reviewers: Sequence[DecisionCounts] | None
    pending_by_age: Sequence[AgeBucket]
    oldest: datetime | None
    overdue: int
    previous: PreviousPeriod | None

    @property
    def created(self) -> int:
        """The number of interrupts that were created."""
        return sum(bucket.created for bucket in self.buckets)

    @property
    def decided(self) -> int:
        """The number of interrupts that people decided."""
        return sum(bucket.decided for bucket in self.buckets)

    @property
    def approved(self) -> int:
        """The number of approvals, with and without changes."""
        return sum(one.approved for one in self.graphs)

    def count_type(self, name: str) -> int:
        """Return the number of decisions of a type."""
        return sum(one.counts[name] for one in self.graphs)

    @property
    def checked(self) -> int:
        """The number of spot checks with a result.

        Spot checks of a graph without decisions in the period are not counted.
        """
        return sum(one.checked for one in self.graphs)

    @property
    def agreed(self) -> int:
        """The number of spot checks whose result agrees with the approval."""
        return sum(one.agreed for one in self.graphs)


class _Seconds(Func):
    template = "EXTRACT(EPOCH FROM (%(expressions)s))"
    arg_joiner = " - "
    output_field = FloatField()


class _Percentile(Aggregate):
    template = "PERCENTILE_CONT(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


#: The condition that a decision was made after the due time of its interrupt.
_IS_LATE = Q(created_at__gt=F("interrupt__due_at"))

_Times = tuple[float | None, float | None]
_NONE: _Times = (None, None)


def review_report(
    user: Any, period: Period, *, graph: str | None = None, reviewer: Any = None
) -> ReviewReport:
    """Return the statistics of a period.

    ``graph`` limits the statistics to one graph. ``reviewer``, a user's primary key, limits the
    decisions to those of this user. The list of reviewers and the counts of interrupts ignore
    ``reviewer``. If ``user`` is None, no permission is checked. Only people's decisions that closed
    an interrupt are counted, on the day of the decision. The counts of pending and overdue
    interrupts refer to the current time, not to the period.
    """
    spans = _Spans.build(period)
    everyone = select_decided(user, period, graph=graph)
    decided = everyone.filter(match_reviewer(reviewer))
    both = select_decided(user, spans.whole, graph=graph).filter(match_reviewer(reviewer))
    unit = choose_unit(period)
    created, created_before = _count_created(user, spans, graph, unit)
    types = _count_types(both, spans, unit)
    times = _time(decided, both, spans, unit)
    checks = _count_checks(user, spans, graph)
    own_checks = [check for check in checks if reviewer is None or check.is_by(reviewer)]
    waiting = queue_filters.list_pending(user, graph=graph)
    bands, oldest = _count_ages(waiting)
    return ReviewReport(
        unit=unit,
        buckets=[
            TimeBucket(
                first=max(start, period.first),
                last=min(end, period.last),
                created=created[start],
                decided=types.by_start[start],
                median=times.by_start.get(start, _NONE)[0],
                p90=times.by_start.get(start, _NONE)[1],
            )
            for start, end in _divide(period, unit)
        ],
        median=times.whole[0],
        p90=times.whole[1],
        sample=times.sample,
        due=types.due,
        late=types.late.total(),
        graphs=[
            _make_shares(
                name,
                name,
                counts,
                types.late[name],
                times.by_graph.get(name, _NONE),
                [check for check in own_checks if check.graph == name],
            )
            for name, counts in sorted(types.by_graph.items())
        ],
        reviewers=_list_reviewers(everyone, checks, times.by_reviewer if reviewer is None else {})
        if may_view_reviewer_reports(user)
        else None,
        pending_by_age=bands,
        oldest=oldest,
        overdue=sum(waiting.filter(part).count() for part in queue_filters.OVERDUE_PARTS),
        previous=_sum_up(spans, created_before, types, times.previous, own_checks)
        if _is_retained(spans.whole.first, graph)
        else None,
    )


def choose_unit(period: Period) -> str:
    """Return the unit (day, week or month) into which a period is divided."""
    days = len(period.days)
    return next((unit for unit, most in UNITS.items() if days <= most), "month")


@dataclass(frozen=True, slots=True)
class _Spans:
    """The period of a report, and the period of the same length before it.

    ``whole`` covers both periods, so that one query counts both.
    """

    period: Period
    whole: Period
    until: datetime

    @classmethod
    def build(cls, period: Period) -> _Spans:
        whole = Period(period.first - timedelta(len(period.days)), period.last)
        rest = start_of_day(period.last + timedelta(1)) - timezone.now()
        return cls(period, whole, start_of_day(period.first) - max(timedelta(0), rest))

    @property
    def is_current(self) -> Q:
        return self.period.match("created_at")

    @property
    def is_previous(self) -> Q:
        return Q(created_at__gte=start_of_day(self.whole.first), created_at__lt=self.until)


def _is_retained(first: date, graph: str | None) -> bool:
    """Return whether the retention settings keep all threads that ended on or after ``first``."""
    term = find_shortest_retention_period(graph)
    return term is None or start_of_day(first) >= timezone.now() - timedelta(days=term)


def _sum_up(
    spans: _Spans, created: int, types: _Types, times: _Times, checks: Iterable[_Checks]
) -> PreviousPeriod:
    counted = [check for check in checks if check.graph in types.previous]
    counts = sum(types.previous.values(), Counter[str]())
    return PreviousPeriod(
        first=spans.whole.first,
        last=spans.period.first - timedelta(1),
        created=created,
        decided=counts.total(),
        approved=sum(n for name, n in counts.items() if DECISION_TYPES[name].is_approval),
        due=types.previous_due,
        late=types.previous_late,
        median=times[0],
        p90=times[1],
        checked=sum(check.previous_checked for check in counted),
        agreed=sum(check.previous_agreed for check in counted),
    )


def _divide(period: Period, unit: str) -> list[tuple[date, date]]:
    """Divide the period into days, weeks or months, and return the first and last day of each."""
    starts = sorted({_start_of(day, unit) for day in period.days})
    ends = [start - timedelta(1) for start in starts[1:]]
    return list(zip(starts, [*ends, period.last], strict=True))


def _start_of(day: date, unit: str) -> date:
    if unit == "month":
        return day.replace(day=1)
    return day - timedelta(day.weekday()) if unit == "week" else day


def _truncate(unit: str) -> Trunc:
    return Trunc("created_at", unit, output_field=DateField())


@dataclass(slots=True)
class _Types:
    """Counts of decisions by type, and counts of decisions made after the interrupt's due time.

    The fields ``previous…`` contain the same counts for the previous period.
    """

    by_start: Counter[date] = field(default_factory=Counter)
    by_graph: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    late: Counter[str] = field(default_factory=Counter)
    due: int = 0
    previous: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    previous_late: int = 0
    previous_due: int = 0


@dataclass(frozen=True, slots=True)
class _Checks:
    """Counts of the spot checks of one reviewer's approvals in one graph."""

    graph: str
    reviewer: Any
    checked: int
    agreed: int
    previous_checked: int
    previous_agreed: int

    def is_by(self, reviewer: Any) -> bool:
        """Return whether the spot checks are about approvals by this reviewer."""
        return str(NOBODY if self.reviewer is None else self.reviewer) == str(reviewer)


def _count_created(
    user: Any, spans: _Spans, graph: str | None, unit: str
) -> tuple[Counter[date], int]:
    """Return the number of created interrupts by bucket, and the total of the previous period."""
    rows = Interrupt.objects.using(write_alias()).filter(spans.whole.match("created_at")).order_by()
    rows = select_visible(rows if graph is None else rows.filter(graph=graph), user)
    groups = rows.annotate(start=_truncate(unit)).values_list("start")
    found = list(
        groups.annotate(
            n=Count("pk", filter=spans.is_current), previous=Count("pk", filter=spans.is_previous)
        )
    )
    return Counter({start: n for start, n, _ in found}), sum(previous for *_, previous in found)


def _count_types(both: QuerySet[Decision], spans: _Spans, unit: str) -> _Types:
    is_due, is_late = Q(interrupt__due_at__isnull=False), _IS_LATE
    groups = both.annotate(start=_truncate(unit)).values_list("start", "interrupt__graph", "type")
    types = _Types()
    for start, name, kind, *numbers in groups.annotate(
        n=Count("pk", filter=spans.is_current),
        due=Count("pk", filter=spans.is_current & is_due),
        late=Count("pk", filter=spans.is_current & is_late),
        earlier=Count("pk", filter=spans.is_previous),
        earlier_due=Count("pk", filter=spans.is_previous & is_due),
        earlier_late=Count("pk", filter=spans.is_previous & is_late),
    ):
        count, due, late, earlier, earlier_due, earlier_late = numbers
        if count:
            types.by_start[start] += count
            types.by_graph[name][kind] += count
        if earlier:
            types.previous[name][kind] += earlier
        types.late[name] += late
        types.due += due
        types.previous_due += earlier_due
        types.previous_late += earlier_late
    return types


@dataclass(frozen=True, slots=True)
class _AllTimes:
    """Median and 90th percentile of the times to decision, for each group of decisions.

    The groups are the period, the previous period, and each bucket, graph and reviewer. The times
    are computed from the latest ``sample`` decisions or, if ``sample`` is None, from all decisions.
    """

    whole: _Times
    previous: _Times
    by_start: Mapping[date, _Times]
    by_graph: Mapping[str, _Times]
    by_reviewer: Mapping[Any, _Times] = field(default_factory=dict)
    sample: int | None = None


def _time(
    decided: QuerySet[Decision], both: QuerySet[Decision], spans: _Spans, unit: str
) -> _AllTimes:
    rows = decided.annotate(start=_truncate(unit))
    if _has_percentiles(decided):
        return _compute_times(rows, both, spans)
    lasted, is_cut = _read_latest(rows, "start", "interrupt__graph", "by")
    earlier, earlier_is_cut = _read_latest(both.filter(spans.is_previous))
    by_start, by_graph, by_reviewer = (_group_times(lasted, number) for number in range(3))
    whole, previous = (
        _percentiles([seconds for *_keys, seconds in one]) for one in (lasted, earlier)
    )
    sample = SAMPLE if is_cut or earlier_is_cut else None
    return _AllTimes(whole, previous, by_start, by_graph, by_reviewer, sample)


def _compute_times(rows: QuerySet[Decision], both: QuerySet[Decision], spans: _Spans) -> _AllTimes:
    percentiles = _make_percentiles()
    by_start, by_graph = (
        {key: (median, p90) for key, median, p90 in rows.values_list(name).annotate(**percentiles)}
        for name in ("start", "interrupt__graph")
    )
    # Percentiles ignore NULL, so one query computes those of both periods.
    found = both.aggregate(
        **_make_percentiles(spans.is_current),
        **{f"previous_{name}": one for name, one in _make_percentiles(spans.is_previous).items()},
    )
    whole = found["median"], found["p90"]
    previous = found["previous_median"], found["previous_p90"]
    return _AllTimes(whole, previous, by_start, by_graph)


def _has_percentiles(decided: QuerySet[Decision]) -> bool:
    return connections[decided.db].vendor == "postgresql"


def _make_percentiles(condition: Q | None = None) -> dict[str, Aggregate]:
    seconds: Any = _Seconds("created_at", "interrupt__created_at")
    if condition is not None:
        seconds = Case(When(condition, then=seconds), output_field=FloatField())
    return {name: _Percentile(seconds, share=share) for name, share in SHARES.items()}


def _read_latest(decided: QuerySet[Decision], *names: str) -> tuple[list[Any], bool]:
    """Return a row for each of the latest decisions, and whether there are further decisions.

    A row contains the columns ``names``, and the seconds from the creation of the interrupt to the
    decision. At most SAMPLE rows are returned.
    """
    latest = decided.order_by("-created_at", "-id")
    rows = list(latest.values_list(*names, "interrupt__created_at", "created_at")[: SAMPLE + 1])
    lasted = [
        (*values, (decided_at - requested_at).total_seconds())
        for *values, requested_at, decided_at in rows[:SAMPLE]
    ]
    return lasted, len(rows) > SAMPLE


def _group_times(lasted: Iterable[Sequence[Any]], number: int) -> dict[Any, _Times]:
    groups: dict[Any, list[float]] = defaultdict(list)
    for *keys, seconds in lasted:
        groups[keys[number]].append(seconds)
    return {key: _percentiles(seconds) for key, seconds in groups.items()}


def _percentiles(seconds: Sequence[float]) -> _Times:
    if not seconds:
        return _NONE
    ordered = sorted(seconds)
    median, p90 = (_percentile(ordered, share) for share in SHARES.values())
    return median, p90


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the percentile ``share`` (0 to 1) of sorted values.

    The result is interpolated like PostgreSQL's PERCENTILE_CONT.
    """
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def _count_checks(user: Any, spans: _Spans, graph: str | None) -> list[_Checks]:
    rows = SpotCheck.objects.using(write_alias()).filter(spans.whole.match("created_at"))
    rows = select_visible_through(rows, "interrupt", user).exclude(result="").order_by()
    if graph is not None:
        rows = rows.filter(interrupt__graph=graph)
    agrees = Q(result=SpotCheck.Result.AGREE)
    found = rows.values_list("interrupt__graph", "decision__by").annotate(
        n=Count("pk", filter=spans.is_current),
        agreed=Count("pk", filter=spans.is_current & agrees),
        earlier=Count("pk", filter=spans.is_previous),
        earlier_agreed=Count("pk", filter=spans.is_previous & agrees),
    )
    return [_Checks(*row) for row in found]


def _list_reviewers(
    decided: QuerySet[Decision], checks: list[_Checks], times: Mapping[Any, _Times]
) -> list[DecisionCounts]:
    """Return the counts of the most active reviewers.

    All people without an account are one entry. ``times`` are the reviewers' times to decision. If
    ``times`` is empty, the times are computed.
    """
    percentiles = _make_percentiles() if _has_percentiles(decided) else {}
    groups = decided.values_list("by").annotate(n=Count("pk"), label=Max("by_label"))
    busiest = list(groups.annotate(**percentiles).order_by("-n")[:MAX_REVIEWERS])
    labels = {key: label for key, _n, label, *_times in busiest}
    if percentiles:
        times = {key: (median, p90) for key, _n, _label, median, p90 in busiest}
    elif not times:
        times = _group_times(_read_latest(decided, "by")[0], 0)
    counts: dict[Any, Counter[str]] = {key: Counter() for key in labels}
    total_late: Counter[Any] = Counter()
    late = Count("pk", filter=_IS_LATE)
    types = decided.values_list("by", "type")
    for key, kind, count, late_count in types.annotate(n=Count("pk"), late=late):
        if key in counts:
            counts[key][kind] += count
            total_late[key] += late_count
    return [
        _make_shares(
            key,
            "" if key is None else labels[key],
            of,
            total_late[key],
            times.get(key, _NONE),
            [check for check in checks if check.reviewer == key],
        )
        for key, of in counts.items()
    ]


def _make_shares(
    key: Any,
    label: str,
    counts: Mapping[str, int],
    late: int,
    times: _Times,
    checks: Sequence[_Checks],
) -> DecisionCounts:
    median, p90 = times
    return DecisionCounts(
        key=key,
        label=label,
        counts={name: counts.get(name, 0) for name in DECISION_TYPES},
        late=late,
        median=median,
        p90=p90,
        checked=sum(check.checked for check in checks),
        agreed=sum(check.agreed for check in checks),
    )


def _count_ages(waiting: QuerySet[Interrupt]) -> tuple[list[AgeBucket], datetime | None]:
    """Count the pending interrupts by age, youngest first, in one scan of an index.

    Return the counts, and the creation time of the oldest interrupt. The time is None if there is
    no interrupt.
    """
    now = timezone.now()
    bounds = [None, *(now - age for age in AGES), None]
    bands = [(since, until) for until, since in pairwise(bounds)]
    parts = {
        f"band{n}": Count("pk", filter=_match_between("created_at", since, until))
        for n, (since, until) in enumerate(bands)
    }
    found = waiting.aggregate(**parts, oldest=Min("created_at"))
    counted = [
        AgeBucket(since=since, until=until, count=found[name] or 0)
        for name, (since, until) in zip(parts, bands, strict=True)
    ]
    return counted, found["oldest"]


def _match_between(name: str, since: datetime | None, until: datetime | None) -> Q:
    found = Q(pk__isnull=False)
    if since is not None:
        found &= Q(**{f"{name}__gte": since})
    if until is not None:
        found &= Q(**{f"{name}__lt": until})
    return found
