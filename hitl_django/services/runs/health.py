"""worker_health: whether anybody works, and how long what is due has been waiting."""

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
    """How the workers are, as far as the rows show.

    ``workers`` have reported not long ago, ``driving`` threads are led by a worker right now, and
    ``overdue`` runs have waited longer than SWEEP_SECONDS for one, the oldest since ``due_since``.
    """

    workers: int
    driving: int
    last_seen: datetime | None
    overdue: int
    due_since: datetime | None

    @property
    def is_alive(self) -> bool:
        """Tell whether any worker has shown itself."""
        return self.workers > 0 or self.driving > 0

    @property
    def is_missing(self) -> bool:
        """Tell whether workers are missed: there were some, or there is work for some."""
        return not self.is_alive and (self.last_seen is not None or self.overdue > 0)


@dataclass(frozen=True, slots=True)
class WorkerOutage:
    """No worker shows itself, though there were some, or there is work for some."""

    last_seen: datetime | None


def find_worker_outage() -> WorkerOutage | None:
    """Return since when workers are missed; None while they are not.

    One query, for the page that is opened most: the runs are only looked at where no worker has
    reported lately.
    """
    seen = _seen()
    alive = GreaterThan(seen["workers"], 0)
    looked = {name: Case(When(alive, then=False), default=Exists(runs)) for name, runs in _runs()}
    found = _heartbeats().aggregate(**seen, **looked)
    if found["workers"] or found["driving"]:
        return None
    missed = found["last_seen"] is not None or found["overdue"]
    return WorkerOutage(found["last_seen"]) if missed else None


def worker_health(*, by: Any = None) -> WorkerHealth:
    """Return how the workers are; a user who may not know gets NotAllowedError."""
    if by is not None and not get_policy().may_view_workers(by):
        raise NotAllowedError("You don't have permission to view worker health.")
    runs = dict(_runs())
    due = runs["overdue"].aggregate(overdue=Count("pk"), due_since=Min("queued_at"))
    return WorkerHealth(
        **_heartbeats().aggregate(**_seen()), **due, driving=runs["driving"].count()
    )


def last_heartbeat_at() -> datetime | None:
    """Return when any worker last reported; anybody who waits for a worker may know it."""
    last: datetime | None = _heartbeats().aggregate(at=Max("at"))["at"]
    return last


def _heartbeats() -> QuerySet[WorkerHeartbeat]:
    return WorkerHeartbeat.objects.using(write_alias())


def _seen() -> dict[str, Any]:
    recently = Q(at__gte=Now() - heartbeat.get_heartbeat_limit())
    return {"workers": Count("pk", filter=recently), "last_seen": Max("at")}


def _runs() -> Iterator[tuple[str, QuerySet[Run]]]:
    """Give the runs that have waited too long for a worker, and those that one leads."""
    runs = Run.objects.using(write_alias())
    late = Now() - timedelta(seconds=hitl.SWEEP_SECONDS)
    yield "overdue", runs.filter(state=Run.State.QUEUED, queued_at__lt=late)
    yield "driving", runs.filter(state=Run.State.RUNNING, thread__lease_until__gte=Now())
