"""Statistics for operators: runs by state, throughput, pending interrupts and workers.

Each function takes a fixed number of queries. Counts are limited to MOST, so that the time of a
query doesn't depend on the number of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import IntegerField, QuerySet, Subquery
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.models import Interrupt, Run, WorkerHeartbeat
from hitl_django.models.functions import Now
from hitl_django.models.review import queue_order
from hitl_django.permissions import select_visible
from hitl_django.task_queue import heartbeat

from ..reviews import queue_filters
from ..reviews.queue_stats import list_pending_graphs

#: Maximum of a count.
MOST = 10_000
HOUR = timedelta(hours=1)
#: Number of hours of the throughput.
HOURS = 25
#: Maximum number of graphs in the list of pending interrupts.
GRAPHS = 8
#: Maximum number of workers in the list.
WORKERS = 20


@dataclass(frozen=True, slots=True)
class HourCount:
    """The number of runs that ended in one hour.

    The failed runs (``failed``) are also counted in ``ended``.
    """

    start: datetime
    ended: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStats:
    """Counts of runs and of pending interrupts. A count equal to MOST means MOST or more.

    Attributes:
        failed: the number of failed runs.
        parked: the number of parked runs.
        running: the number of runs that a worker is running.
        queued: the number of queued runs.
        oldest_queued_at: the time since which the oldest queued run has been queued, or None.
        pending: the number of pending interrupts.
        overdue: the number of pending interrupts past their due time.
        hours: the runs that ended in each of the last hours, the oldest hour first. The last entry
            is the last 60 minutes.
    """

    failed: int
    parked: int
    running: int
    queued: int
    oldest_queued_at: datetime | None
    pending: int
    overdue: int
    hours: Sequence[HourCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBacklog:
    """Counts of a graph's pending and overdue interrupts.

    ``oldest_at`` is the creation time of the oldest pending interrupt.
    """

    graph: str
    pending: int
    overdue: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker process with a heartbeat.

    Attributes:
        host: the name of the host.
        pid: the process id.
        version: the version of the package.
        seen_at: the time of the last heartbeat.
        is_recent: whether the heartbeat is recent.
    """

    host: str
    pid: int
    version: str
    seen_at: datetime
    is_recent: bool


class _Limited(Subquery):
    """The number of rows of a query, counted up to MOST.

    ``column`` is a column of the index that the query uses, so that only the index is read.
    """

    template = "(SELECT COUNT(*) FROM (%(subquery)s) AS limited)"
    output_field = IntegerField()
    empty_result_set_value = 0

    def __init__(self, rows: QuerySet[Any], column: str) -> None:
        super().__init__(rows.values(column)[:MOST])


def read_operator_stats(user: Any) -> OperatorStats:
    """Count the visible runs by state, and the visible pending interrupts, with one query."""
    runs = select_visible(Run.objects.using(write_alias()), user).order_by()
    queued = runs.filter(state=Run.State.QUEUED)
    now = timezone.now()
    starts = [now - HOUR * (HOURS - number) for number in range(HOURS)]
    ended = [runs.filter(finished_at__gte=at, finished_at__lt=at + HOUR) for at in starts]
    failed = [rows.filter(state=Run.State.FAILED) for rows in ended]
    states = (Run.State.FAILED, Run.State.PARKED, Run.State.RUNNING, Run.State.QUEUED)
    oldest, *found = _read_row(
        user,
        Subquery(queued.order_by("queued_at").values("queued_at")[:1]),
        *_count_interrupts(queue_filters.list_pending(user)),
        *(_Limited(runs.filter(state=state), "state") for state in states),
        *(_Limited(rows, "finished_at") for rows in (*ended, *failed)),
    )
    counts = zip(starts, found[6 : 6 + HOURS], found[6 + HOURS :], strict=True)
    return OperatorStats(
        pending=found[0],
        overdue=found[1],
        failed=found[2],
        parked=found[3],
        running=found[4],
        queued=found[5],
        oldest_queued_at=oldest,
        hours=[HourCount(*each) for each in counts],
    )


def list_stuck_runs(user: Any, most: int) -> list[Run]:
    """Return the newest failed and parked runs that the user may see, ``most`` of each state."""
    runs = select_visible(Run.objects.using(write_alias()), user)
    runs = runs.defer("input", "traceback").select_related("thread").order_by("-created_at", "-id")
    return [
        run
        for state in (Run.State.FAILED, Run.State.PARKED)
        for run in runs.filter(state=state)[:most]
    ]


def find_oldest_pending(user: Any) -> Interrupt | None:
    """Return the oldest pending interrupt that the user may see, with its title, or None."""
    rows = queue_filters.list_pending(user).order_by("created_at", "id")
    return rows.only("title", "created_at").first()


def list_backlogs(user: Any) -> list[GraphBacklog]:
    """Return counts of the pending interrupts that the user may see, for each registered graph.

    The graph with the oldest pending interrupt comes first. Graphs without pending interrupts are
    omitted. At most GRAPHS graphs are returned.
    """
    graphs = list_pending_graphs(user)
    figures: list[Any] = []
    for graph in graphs:
        rows = queue_filters.list_pending(user, graph=graph)
        figures.append(Subquery(rows.order_by("created_at", "id").values("created_at")[:1]))
        figures += _count_interrupts(rows)
    found = iter(_read_row(user, *figures)) if figures else iter(())
    backlogs = [
        GraphBacklog(graph=graph, oldest_at=at, pending=pending, overdue=overdue)
        for graph, at, pending, overdue in zip(graphs, found, found, found, strict=False)
    ]
    backlogs.sort(key=lambda backlog: backlog.oldest_at or timezone.now())
    return backlogs[:GRAPHS]


def list_workers() -> list[WorkerRow]:
    """Return the workers with the latest heartbeats.

    A worker whose heartbeat isn't recent has probably ended.
    """
    rows = WorkerHeartbeat.objects.using(write_alias()).annotate(now=Now()).order_by("-at")
    limit = heartbeat.get_heartbeat_limit()
    return [
        WorkerRow(
            host=row.host,
            pid=row.pid,
            version=row.version,
            seen_at=row.at,
            is_recent=row.at >= row.now - limit,
        )
        for row in rows[:WORKERS]
    ]


def _count_interrupts(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield two database expressions: the numbers of pending and of overdue interrupts."""
    yield _Limited(rows.order_by("created_at", "id"), "created_at")
    first, second = (rows.filter(part) for part in queue_filters.OVERDUE_PARTS)
    yield _Limited(first.order_by(*queue_order()), "pk") + _Limited(second, "due_at")


def _read_row(user: Any, *figures: Any) -> Sequence[Any]:
    # Read all figures in one query on the user's row, which always exists.
    users = get_user_model()._base_manager.using(write_alias()).filter(pk=user.pk)
    return users.values_list(*figures).get()
