"""queue_counts and review_stats: how much waits, and how fast it is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, IntegerField, Min, QuerySet, Subquery
from django.db.models.functions import Now

from hitl_django import dispatch, registry
from hitl_django.models import Decision, Interrupt
from hitl_django.policy import get_policy

from . import queue

#: A count goes no further: nobody needs to know whether 12,000 or 12,001 wait, and finding out
#: would take as long as there are rows.
CAP = 1000
#: Decisions that the statistics look at: the latest, and no older than that.
SAMPLE, WITHIN = 500, timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How many questions wait for whom; each at most CAP, which means that many or more.

    ``mine`` are held by the user or assigned to them, ``free`` could be taken by them, ``held``
    are held by others, ``overdue`` are past their due time, ``snoozed`` are put off, ``awake`` are
    not, ``pending`` is all of them.
    """

    mine: int
    free: int
    held: int
    overdue: int
    snoozed: int
    awake: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStats:
    """How the queue goes: what waits (each at most CAP), and the latest decisions of people.

    ``median_seconds`` is from question to decision, ``approve_rate`` the share of approvals, with
    changes or without, among approvals and rejections; None where nobody has decided yet.
    """

    pending: int
    overdue: int
    oldest_at: datetime | None
    median_seconds: float | None
    approve_rate: float | None


class _Capped(Subquery):
    """The number of rows of a query, which is made no larger than ``most``."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()
    empty_result_set_value = 0

    def __init__(self, rows: QuerySet[Any], most: int) -> None:
        super().__init__(rows.order_by().values("pk")[:most])


def queue_counts(user: Any, *, graph: str | None = None, group: Any = None) -> QueueCounts:
    """Counts what waits and the user may see; ``graph`` and ``group`` (a Group or its key) narrow
    what is counted.
    """
    return count_queue(user, graph=graph, group=group)[0]


def count_queue(
    user: Any,
    *,
    graph: str | None = None,
    group: Any = None,
    most: int = CAP,
    listed: QuerySet[Interrupt] | None = None,
) -> tuple[QueueCounts, int]:
    """Returns the same, each at most ``most``, and how many are ``listed`` (at most CAP).

    All of it is one query.
    """
    rows = queue.waiting(user)
    if graph is not None:
        rows = rows.filter(graph=graph)
    if group is not None:
        rows = rows.filter(group=group)
    counted = {
        "mine": rows.filter(queue.mine(user)),
        "free": rows.filter(queue.free_for(user)),
        "held": rows.filter(queue.held_by_others(user)),
        "overdue": rows.filter(queue.OVERDUE),
        "snoozed": rows.filter(queue.SNOOZED),
        "awake": rows.filter(queue.AWAKE),
        "pending": rows,
    }
    figures = [_Capped(some, most) for some in counted.values()]
    if listed is not None:
        figures.append(_Capped(listed, CAP))
    found = _own_row(user).values_list(*figures).first() or (0,) * len(figures)
    return QueueCounts(**dict(zip(counted, found, strict=False))), found[-1]


def waiting_graphs(user: Any) -> list[str]:
    """Returns the registered graphs of which something waits that the user may see."""
    names, rows = registry.names(), queue.waiting(user)
    if not names or rows.query.is_empty():
        return []
    found = _own_row(user).values_list(*(Exists(rows.filter(graph=name)) for name in names)).first()
    return [name for name, waits in zip(names, found or (), strict=False) if waits]


def review_stats(user: Any, *, graph: str | None = None) -> ReviewStats:
    """Says how the queue that the user may see goes; None sees all of it."""
    rows = queue.waiting(user)
    if graph is not None:
        rows = rows.filter(graph=graph)
    oldest = rows.aggregate(at=Min("created_at"))["at"]
    decided = list(_decided(user, graph))
    seconds = sorted((made - asked).total_seconds() for _, asked, made in decided)
    types = [kind for kind, _, _ in decided]
    approved = sum(kind in (Decision.Type.APPROVE, Decision.Type.EDIT) for kind in types)
    ruled = approved + types.count(Decision.Type.REJECT)
    return ReviewStats(
        pending=rows[:CAP].count(),
        overdue=rows.filter(queue.OVERDUE)[:CAP].count(),
        oldest_at=oldest,
        median_seconds=_median(seconds),
        approve_rate=approved / ruled if ruled else None,
    )


def _own_row(user: Any) -> QuerySet[Any]:
    # Several things are asked in one query over the one row that is there for certain.
    return get_user_model()._base_manager.using(dispatch.alias()).filter(pk=user.pk)


def _decided(user: Any, graph: str | None) -> QuerySet[Any]:
    """Gives the latest decisions of people: type, when it was asked, when it was decided."""
    using = dispatch.alias()
    made = Decision.objects.using(using).filter(effective=True, created_at__gte=Now() - WITHIN)
    made = made.exclude(type=Decision.Type.EXPIRE)
    if user is not None:
        seen = get_policy().visible_interrupts(user, Interrupt.objects.using(using).order_by())
        made = made.none() if seen.query.is_empty() else made.filter(interrupt__in=seen)
    if graph is not None:
        made = made.filter(interrupt__graph=graph)
    latest = made.order_by("-created_at", "-id")[:SAMPLE]
    return latest.values_list("type", "interrupt__created_at", "created_at")


def _median(ordered: list[float]) -> float | None:
    if not ordered:
        return None
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
