"""review_figures: how reviewing went in a time, by day, by graph and by reviewer.

The number of queries is fixed, none of them reads a payload, and what they return is bounded by the
days, the graphs and the reviewers that there are. Deleted and archived threads are in none of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections
from django.db.models import Aggregate, Count, Exists, FloatField, Func, Max, Q, QuerySet
from django.db.models.functions import TruncDate
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DECISION_TYPES, EXPIRE
from hitl_django.engine.errors import InvalidInputError
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt, SecondLook
from hitl_django.permissions import get_policy, select_visible, select_visible_through

from . import queue_filters

#: The longest time that is looked at.
MAX_DAYS = 366
#: Beyond these, time zones lead out of the calendar.
YEARS = range(1900, 9000)
#: Reviewers who are listed, those with the most decisions.
MAX_REVIEWERS = 100
#: Where the database has no percentiles, they are those of so many of the latest decisions.
SAMPLE = 20_000
#: Where one band of ages ends and the next begins.
AGES = (
    timedelta(hours=1),
    timedelta(hours=4),
    timedelta(days=1),
    timedelta(days=3),
    timedelta(days=7),
)
SHARES = {"half": 0.5, "most": 0.9}


@dataclass(frozen=True, slots=True)
class Period:
    """Days in a row, the first and the last included."""

    first: date
    last: date

    @classmethod
    def build(cls, first: date, last: date, *, max_days: int | None = MAX_DAYS) -> Period:
        """Returns the period; InvalidInputError where it ends before it begins, or is too long."""
        if first.year not in YEARS or last.year not in YEARS:
            raise InvalidInputError("That is no time of ours.", [("last", "is no time of ours")])
        if last < first:
            raise InvalidInputError("It ends before it begins.", [("last", "is before the first")])
        if max_days is not None and (last - first).days >= max_days:
            reason = f"is more than {max_days} days after the first"
            raise InvalidInputError("The time is too long.", [("last", reason)])
        return cls(first, last)

    @property
    def days(self) -> list[date]:
        """All days of it."""
        return [self.first + timedelta(n) for n in range((self.last - self.first).days + 1)]

    def match(self, name: str) -> Q:
        """Matches the rows whose column is in it, by days of the current time zone."""
        bounds = {f"{name}__gte": start_of(self.first)}
        return Q(**bounds, **{f"{name}__lt": start_of(self.last + timedelta(1))})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeBand:
    """How many questions wait that were asked ``since`` a moment and before ``until``."""

    since: datetime | None
    until: datetime | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """What was asked and decided on a day, and in how many seconds half and nine tenths were."""

    day: date
    asked: int
    decided: int
    half: float | None
    most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionShares:
    """How many decisions there were of each type, of a graph or a reviewer.

    ``key`` is the graph's name or the reviewer's; None is who has no account. Of the second looks
    at them, ``judged`` have a verdict and ``agreed`` agree.
    """

    key: Any
    label: str
    counts: Mapping[str, int]
    judged: int
    agreed: int

    @property
    def total(self) -> int:
        """How many they are together."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFigures:
    """How reviewing went, as far as the user may see it.

    Times are seconds from question to decision, ``half`` and ``most`` of which half and nine tenths
    of the decisions took no longer than. They are of the latest ``sample`` decisions; None is all.
    ``reviewers`` is None for who may not see figures of each reviewer.
    """

    days: Sequence[DayFigures]
    half: float | None
    most: float | None
    sample: int | None
    graphs: Sequence[DecisionShares]
    reviewers: Sequence[DecisionShares] | None
    waiting: Sequence[AgeBand]
    overdue: int

    @property
    def asked(self) -> int:
        """How many questions were asked."""
        return sum(day.asked for day in self.days)

    @property
    def decided(self) -> int:
        """How many questions people decided."""
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


def review_figures(user: Any, period: Period, *, graph: str | None = None) -> ReviewFigures:
    """Returns the figures of a period, of one graph or of all; None sees everything.

    Decisions are those of people that closed their question, on the day that they were made. What
    waits and what is overdue is so now, whatever the period.
    """
    decided = select_decided(user, period, graph=graph)
    asked, types = _count_asked(user, period, graph), _count_types(decided)
    times, sample = _time(decided)
    looks = _count_looks(user, period, graph)
    waiting = queue_filters.list_waiting(user, graph=graph)
    return ReviewFigures(
        days=[
            DayFigures(
                day=day,
                asked=asked[day],
                decided=types.by_day[day],
                half=times.get(day, _NONE)[0],
                most=times.get(day, _NONE)[1],
            )
            for day in period.days
        ],
        half=times.get(None, _NONE)[0],
        most=times.get(None, _NONE)[1],
        sample=sample,
        graphs=[
            _make_shares(name, name, counts, looks, lambda look: look.graph)
            for name, counts in sorted(types.by_graph.items())
        ],
        reviewers=_list_reviewers(decided, looks) if may_see_reviewers(user) else None,
        waiting=_count_ages(waiting),
        overdue=sum(waiting.filter(part).count() for part in queue_filters.OVERDUE_PARTS),
    )


def asked_graphs(user: Any) -> list[str]:
    """Returns the registered graphs that ever asked something which the user may see."""
    names = registry.list_names()
    rows = select_visible(Interrupt.objects.using(write_alias()).order_by(), user)
    if not names or rows.query.is_empty():
        return []
    # One query that looks for one row of each, in the index that begins with the graph.
    own = get_user_model()._base_manager.using(write_alias()).filter(pk=user.pk)
    found = own.values_list(*(Exists(rows.filter(graph=name)) for name in names)).first()
    return [name for name, is_asked in zip(names, found or (), strict=False) if is_asked]


def select_decided(user: Any, period: Period, *, graph: str | None = None) -> QuerySet[Decision]:
    """Selects the decisions of people that closed a question in a period."""
    made = Decision.objects.using(write_alias()).filter(period.match("created_at"), effective=True)
    made = select_visible_through(made.exclude(type=EXPIRE), "interrupt", user)
    return (made if graph is None else made.filter(interrupt__graph=graph)).order_by()


def may_see_reviewers(user: Any) -> bool:
    """Says whether the user may see who decided how much; None may."""
    return user is None or get_policy().may_view_reviewer_figures(user)


def start_of(day: date) -> datetime:
    """Returns the moment at which a day begins, in the current time zone."""
    moment = datetime.combine(day, time.min)
    return timezone.make_aware(moment) if settings.USE_TZ else moment


@dataclass(frozen=True, slots=True)
class _Types:
    by_day: Counter[date]
    by_graph: Mapping[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class _Looks:
    """Second looks at what one reviewer approved of one graph."""

    graph: str
    reviewer: Any
    judged: int
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
    """Returns the times of each day, under None those of all, and of how many decisions they are.

    None is of all of them.
    """
    day = TruncDate("created_at")
    if connections[decided.db].vendor == "postgresql":
        seconds = _Seconds("created_at", "interrupt__created_at")
        both = {name: _Percentile(seconds, share=share) for name, share in SHARES.items()}
        found: dict[date | None, _Times] = {
            each: (half, most)
            for each, half, most in decided.annotate(day=day).values_list("day").annotate(**both)
        }
        whole = decided.aggregate(**both)
        found[None] = (whole["half"], whole["most"])
        return found, None
    latest = decided.order_by("-created_at", "-id").annotate(day=day)
    lasted: dict[date | None, list[float]] = defaultdict(list)
    rows = list(latest.values_list("day", "interrupt__created_at", "created_at")[: SAMPLE + 1])
    for each, asked_at, decided_at in rows[:SAMPLE]:
        for key in (each, None):
            lasted[key].append((decided_at - asked_at).total_seconds())
    ordered = {key: sorted(values) for key, values in lasted.items()}
    half, most = SHARES.values()
    times: dict[date | None, _Times] = {
        key: (_percentile(values, half), _percentile(values, most))
        for key, values in ordered.items()
    }
    return times, SAMPLE if len(rows) > SAMPLE else None


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Returns the value below which that share of them lies, as PostgreSQL's PERCENTILE_CONT."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def _count_looks(user: Any, period: Period, graph: str | None) -> list[_Looks]:
    rows = SecondLook.objects.using(write_alias()).filter(period.match("created_at"))
    rows = select_visible_through(rows, "interrupt", user).exclude(verdict="").order_by()
    if graph is not None:
        rows = rows.filter(interrupt__graph=graph)
    agreed = Count("pk", filter=Q(verdict=SecondLook.Verdict.AGREE))
    names = "interrupt__graph", "decision__by"
    return [_Looks(*row) for row in rows.values_list(*names).annotate(n=Count("pk"), agreed=agreed)]


def _list_reviewers(decided: QuerySet[Decision], looks: list[_Looks]) -> list[DecisionShares]:
    """Returns the shares of those who decided most; who has no account is one of them."""
    busiest = decided.values_list("by").annotate(n=Count("pk"), label=Max("by_label"))
    labels = {key: label for key, _n, label in busiest.order_by("-n")[:MAX_REVIEWERS]}
    counts: dict[Any, Counter[str]] = {key: Counter() for key in labels}
    for key, kind, count in decided.values_list("by", "type").annotate(n=Count("pk")):
        if key in counts:
            counts[key][kind] += count
    return [
        _make_shares(key, "" if key is None else labels[key], of, looks, lambda look: look.reviewer)
        for key, of in counts.items()
    ]


def _make_shares(
    key: Any,
    label: str,
    counts: Mapping[str, int],
    looks: Iterable[_Looks],
    key_of: Callable[[_Looks], Any],
) -> DecisionShares:
    own = [look for look in looks if key_of(look) == key]
    return DecisionShares(
        key=key,
        label=label,
        counts={name: counts.get(name, 0) for name in DECISION_TYPES},
        judged=sum(look.judged for look in own),
        agreed=sum(look.agreed for look in own),
    )


def _count_ages(waiting: QuerySet[Interrupt]) -> list[AgeBand]:
    """Counts what waits by how long it has, the youngest first, in one look at its index."""
    now = timezone.now()
    bounds = [None, *(now - age for age in AGES), None]
    bands = [(since, until) for until, since in pairwise(bounds)]
    parts = {
        f"band{n}": Count("pk", filter=_match_between("created_at", since, until))
        for n, (since, until) in enumerate(bands)
    }
    found = waiting.aggregate(**parts)
    return [
        AgeBand(since=since, until=until, count=found[name] or 0)
        for name, (since, until) in zip(parts, bands, strict=True)
    ]


def _match_between(name: str, since: datetime | None, until: datetime | None) -> Q:
    found = Q(pk__isnull=False)
    if since is not None:
        found &= Q(**{f"{name}__gte": since})
    if until is not None:
        found &= Q(**{f"{name}__lt": until})
    return found
