"""Health of the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Exists, Max, Min, Q, QuerySet, When
from django.db.models.lookups import GreaterThan

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.models import Run, WorkerHeartbeat
from hitl_django.models.functions import Now
from hitl_django.permissions import get_policy
from hitl_django.task_queue import heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """The state of the workers according to the database.

    Attributes:
        workers: the number of workers with a recent heartbeat.
        running: the number of threads with a run that a worker is running.
        last_seen: the time of the last heartbeat, or None.
        overdue: the number of runs that have been queued for longer than SWEEP_SECONDS.
        due_since: the time at which the oldest of these runs was queued, or None.
    """

    workers: int
    running: int
    last_seen: datetime | None
    overdue: int
    due_since: datetime | None

    @property
    def is_alive(self) -> bool:
        """Whether at least one worker has a recent heartbeat or a lease."""
        return self.workers > 0 or self.running > 0

    @property
    def is_missing(self) -> bool:
        """Whether no worker is alive, although a worker existed before or runs are overdue."""
        return not self.is_alive and (self.last_seen is not None or self.overdue > 0)


@dataclass(frozen=True, slots=True)
class WorkerOutage:
    """A state in which no worker is alive, although a worker existed before or runs are overdue."""

    last_seen: datetime | None


def find_worker_outage() -> WorkerOutage | None:
    """Return the outage if no worker is alive, otherwise None.

    The function makes a single query, because it is called by the most frequently opened page. Runs
    are read only if no worker has a recent heartbeat.
    """
    seen = _build_aggregates()
    alive = GreaterThan(seen["workers"], 0)
    checks = {
        name: Case(When(alive, then=False), default=Exists(runs)) for name, runs in _select_runs()
    }
    found = _heartbeats().aggregate(**seen, **checks)
    if found["workers"] or found["running"]:
        return None
    missed = found["last_seen"] is not None or found["overdue"]
    return WorkerOutage(found["last_seen"]) if missed else None


def worker_health(*, by: Any = None) -> WorkerHealth:
    """Return the health of the workers.

    Raises:
        NotAllowedError: if the user may not view the health.
    """
    if by is not None and not get_policy().may_view_workers(by):
        raise NotAllowedError("You don't have permission to view worker health.")
    runs = dict(_select_runs())
    due = runs["overdue"].aggregate(overdue=Count("pk"), due_since=Min("queued_at"))
    return WorkerHealth(
        **_heartbeats().aggregate(**_build_aggregates()), **due, running=runs["running"].count()
    )


def last_heartbeat_at() -> datetime | None:
    """Return the time of the last heartbeat of any worker, or None.

    No permission is checked.
    """
    last: datetime | None = _heartbeats().aggregate(at=Max("at"))["at"]
    return last


def _heartbeats() -> QuerySet[WorkerHeartbeat]:
    return WorkerHeartbeat.objects.using(write_alias())


def _build_aggregates() -> dict[str, Any]:
    recently = Q(at__gte=Now() - heartbeat.get_heartbeat_limit())
    return {"workers": Count("pk", filter=recently), "last_seen": Max("at")}


def _select_runs() -> Iterator[tuple[str, QuerySet[Run]]]:
    """Yield pairs of a name and a query, for overdue runs and runs that a worker is running."""
    runs = Run.objects.using(write_alias())
    late = Now() - timedelta(seconds=hitl.SWEEP_SECONDS)
    yield "overdue", runs.filter(state=Run.State.QUEUED, queued_at__lt=late)
    yield "running", runs.filter(state=Run.State.RUNNING, thread__lease_until__gte=Now())
