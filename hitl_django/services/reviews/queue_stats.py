"""Counts and statistics of the review queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import (
    Case,
    Exists,
    Func,
    IntegerField,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.lookups import GreaterThanOrEqual

from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DECISION_TYPES, EXPIRE
from hitl_django.graph_registry import registry
from hitl_django.models import Decision
from hitl_django.models.functions import Now
from hitl_django.models.review import queue_order
from hitl_django.permissions import get_policy, select_visible_through

from . import queue_filters

#: Maximum of a count. Exact larger numbers are of little use, and counting takes time for each row.
CAP = 500
#: Names of counts that are usually small. Each has an index with few rows.
RARE = frozenset({"mine", "claimed", "snoozed"})
#: Maximum number and maximum age of the latest decisions that the statistics include.
SAMPLE, WITHIN = 200, timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Counts of pending interrupts. A count equal to CAP means CAP or more.

    Attributes:
        mine: interrupts claimed by the user or assigned to the user.
        unclaimed: interrupts the user could claim.
        claimed: interrupts claimed by other users.
        overdue: interrupts past their due time.
        snoozed: snoozed interrupts.
        awake: interrupts without a snooze.
        pending: all pending interrupts.
    """

    mine: int
    unclaimed: int
    claimed: int
    overdue: int
    snoozed: int
    awake: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStats:
    """Statistics of the review queue: pending interrupts, and people's latest decisions.

    Attributes:
        pending: the number of pending interrupts, at most CAP.
        overdue: the number of overdue interrupts, at most CAP.
        oldest_at: the time at which the oldest pending interrupt was created, or None.
        median_seconds: the median number of seconds from interrupt to decision, or None without
            decisions.
        approve_rate: the share of approvals, with or without changes, among approvals and
            rejections (0 to 1), or None without decisions.
    """

    pending: int
    overdue: int
    oldest_at: datetime | None
    median_seconds: float | None
    approve_rate: float | None


class _Capped(Subquery):
    """The number of rows of a query, counted up to ``most``."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()
    empty_result_set_value = 0

    def __init__(self, rows: QuerySet[Any], most: int) -> None:
        super().__init__(rows.values("pk")[:most])


class _Searched(Func):
    """The number of rows that a search finds.

    The query counts the rows of ``search.few``, up to ``most``. If this limit is reached, the query
    counts the rows of ``search.many`` instead, up to CAP. If many of the first rows of the queue
    match the search, the query doesn't count ``search.few``, and counts only ``search.many``.
    """

    template = "(SELECT CASE WHEN n >= %(most)s THEN %(expressions)s AS n LIMIT 1) AS tried)"
    arg_joiner = " ELSE n END FROM (SELECT "
    output_field = IntegerField()

    def __init__(self, search: queue_filters.Search, most: int) -> None:
        soon = GreaterThanOrEqual(_Capped(search.find_early(2 * most), most), most // 2)
        tried = Case(When(soon, then=most), default=_Capped(search.few, most))
        super().__init__(_Capped(search.many, CAP), tried, most=int(most))


def queue_counts(user: Any, *, graph: str | None = None, group: Any = None) -> QueueCounts:
    """Return counts of the pending interrupts that the user may see.

    ``graph`` and ``group`` (a Group or its key) narrow the interrupts.
    """
    return count_queue(user, graph=graph, group=group)[0]


def count_queue(
    user: Any,
    *,
    graph: str | None = None,
    group: Any = None,
    where: Q | None = None,
    groups: Collection[Any] | None = None,
    most: int = CAP,
    listed: str | queue_filters.Search = "",
) -> tuple[QueueCounts, int]:
    """Return the counts of the review queue up to ``most``, and the length of one list up to CAP.

    ``listed`` is the list: the name of a count, such as "overdue", or a search. ``groups`` are the
    keys of those groups of the user that have pending interrupts. If ``groups`` is given, the
    function makes a single query. ``where`` is a further condition on all counted interrupts.
    """
    rows = queue_filters.list_pending(user, graph=graph, group=group, where=where)
    parts = _parts(user, queue_filters.list_group_keys(user) if groups is None else groups, group)
    figures: list[tuple[str, Any]] = [
        (name, _Capped(_in_order(rows.filter(part), name), CAP if name == listed else most))
        for name, some in parts.items()
        for part in some
    ]
    if not isinstance(listed, str):
        figures.append(("", _Searched(listed, most)))
    names, counted = zip(*figures, strict=True)
    found = dict.fromkeys(names, 0)
    for name, count in zip(names, _own_row(user).values_list(*counted).first() or (), strict=False):
        found[name] = min(found[name] + count, CAP)
    shown = found.pop("", 0) if not isinstance(listed, str) else found.get(listed, 0)
    return QueueCounts(**{name: min(count, most) for name, count in found.items()}), shown


def _parts(user: Any, groups: Collection[Any], group: Any) -> dict[str, Sequence[Q]]:
    return {
        "mine": [queue_filters.match_own(user)],
        "unclaimed": queue_filters.split_unclaimed(user, groups, group),
        "claimed": [queue_filters.match_claimed_by_others(user)],
        "overdue": queue_filters.OVERDUE_PARTS,
        "snoozed": [queue_filters.SNOOZED],
        "awake": [queue_filters.AWAKE],
        "pending": [Q()],
    }


def _in_order(rows: QuerySet[Any], name: str) -> QuerySet[Any]:
    # Read counts that may be large in an order that has an index. Without an order, the query
    # planner expects to find matching rows soon in the table, but new rows are at the end of the
    # table.
    return rows if name in RARE else rows.order_by(*queue_order())


def count_for(user: Any, *, most: int = CAP) -> int:
    """Return the number of pending interrupts that the user could decide now, at most ``most``.

    The interrupts are unclaimed or claimed by the user. The permission is checked for the first of
    these interrupts only: if the user may not decide this interrupt, the result is 0.
    """
    rows = queue_filters.list_pending(user)
    own = queue_filters.CLAIMED & Q(claimed_by=user.pk)
    groups = queue_filters.list_group_keys(user)
    parts = [own, *queue_filters.split_unclaimed(user, groups)]
    first = None if rows.query.is_empty() else queue_filters.read_first(rows, parts, 1).first()
    if first is None or not get_policy().may_decide(user, first):
        return 0
    counts = [_Capped(rows.filter(part).order_by(*queue_order()), most) for part in parts]
    return min(sum(_own_row(user).values_list(*counts).first() or ()), most)


def list_pending_graphs(user: Any) -> list[str]:
    """Return the registered graphs that have pending interrupts visible to the user."""
    names, rows = registry.list_names(), queue_filters.list_pending(user)
    if not names or rows.query.is_empty():
        return []
    found = _own_row(user).values_list(*(_first_of(rows.filter(graph=name)) for name in names))
    return [name for name, key in zip(names, found.first() or (), strict=False) if key is not None]


def list_pending_groups(user: Any) -> list[tuple[Any, str, bool]]:
    """Return the groups that have pending interrupts visible to the user.

    Each result is a tuple of key, name, and whether the user is a member of the group.
    """
    rows = queue_filters.list_pending(user)
    if rows.query.is_empty():
        return []
    groups = Group.objects.using(write_alias()).alias(
        first=_first_of(rows.filter(group=OuterRef("pk")))
    )
    theirs = Exists(user.groups.filter(pk=OuterRef("pk")))
    found = groups.filter(first__isnull=False).annotate(is_theirs=theirs).order_by("name")
    return list(found.values_list("pk", "name", "is_theirs"))


def _first_of(rows: QuerySet[Any]) -> Subquery:
    # Exists() has no order, so the query planner would read the whole table.
    return Subquery(rows.order_by(*queue_order()).values("pk")[:1])


def review_stats(user: Any, *, graph: str | None = None) -> ReviewStats:
    """Return statistics of the interrupts that the user may see.

    Without a user, the statistics cover all interrupts.
    """
    rows = queue_filters.list_pending(user, graph=graph)
    oldest = rows.aggregate(at=Min("created_at"))["at"]
    decided = list(_decided(user, graph))
    seconds = sorted(
        (made.created_at - made.interrupt__created_at).total_seconds() for made in decided
    )
    rulings = [DECISION_TYPES[made.type].is_approval for made in decided]
    approved = rulings.count(True)
    ruled = approved + rulings.count(False)
    return ReviewStats(
        pending=rows.order_by(*queue_order())[:CAP].count(),
        overdue=_count(rows, queue_filters.OVERDUE_PARTS),
        oldest_at=oldest,
        median_seconds=_median(seconds),
        approve_rate=approved / ruled if ruled else None,
    )


def _own_row(user: Any) -> QuerySet[Any]:
    # Read several values in one query on the user's row, which always exists.
    return get_user_model()._base_manager.using(write_alias()).filter(pk=user.pk)


def _decided(user: Any, graph: str | None) -> QuerySet[Any]:
    """Return the latest decisions by people.

    Each row has the decision type, the creation time of the interrupt, and the time of the
    decision.
    """
    recent = {"effective": True, "created_at__gte": Now() - WITHIN}
    made = Decision.objects.using(write_alias()).filter(**recent).exclude(type=EXPIRE)
    made = select_visible_through(made, "interrupt", user)
    if graph is not None:
        made = made.filter(interrupt__graph=graph)
    latest = made.order_by("-created_at", "-id")[:SAMPLE]
    return latest.values_list("type", "interrupt__created_at", "created_at", named=True)


def _count(rows: QuerySet[Any], parts: Sequence[Q]) -> int:
    some = (rows.filter(part).order_by(*queue_order())[:CAP].count() for part in parts)
    return min(sum(some), CAP)


def _median(ordered: list[float]) -> float | None:
    if not ordered:
        return None
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
