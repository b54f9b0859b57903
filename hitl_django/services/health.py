"""worker_health: whether anybody works, and how long what is due has been waiting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Now

from hitl_django import dispatch, heartbeats
from hitl_django.conf import hitl
from hitl_django.engine.errors import NotAllowedError
from hitl_django.models import Run, Thread, WorkerHeartbeat
from hitl_django.policy import get_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """How the workers are, as far as the rows tell.

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
        """Tells whether any worker has shown itself."""
        return self.workers > 0 or self.driving > 0

    @property
    def is_silent(self) -> bool:
        """Tells whether workers are missed: there were some, or there is work for some."""
        return not self.is_alive and (self.last_seen is not None or self.overdue > 0)


def missing_workers() -> WorkerHealth | None:
    """Returns how the workers are while none shows itself; None, and at less cost, otherwise."""
    using = dispatch.alias()
    recently = WorkerHeartbeat.objects.using(using).filter(at__gte=Now() - heartbeats.silence())
    return None if recently.exists() else worker_health()


def worker_health(*, by: Any = None) -> WorkerHealth:
    """Returns how the workers are; a user who may not know gets NotAllowedError."""
    if by is not None and not get_policy().may_view_workers(by):
        raise NotAllowedError("You may not see how the workers are.")
    using = dispatch.alias()
    recently = Now() - heartbeats.silence()
    seen = WorkerHeartbeat.objects.using(using).aggregate(
        alive=Count("pk", filter=Q(at__gte=recently)), last=Max("at")
    )
    due = (
        Run.objects.using(using)
        .filter(state=Run.State.QUEUED, queued_at__lt=Now() - timedelta(seconds=hitl.SWEEP_SECONDS))
        .aggregate(count=Count("pk"), since=Min("queued_at"))
    )
    driving = Thread.objects.using(using).filter(
        runs__state=Run.State.RUNNING, lease_until__gte=Now()
    )
    return WorkerHealth(
        workers=seen["alive"],
        driving=driving.count(),
        last_seen=seen["last"],
        overdue=due["count"],
        due_since=due["since"],
    )


def worker_seen_at() -> datetime | None:
    """Returns when any worker last reported; for all who wait for one, as it tells no more."""
    last: datetime | None = WorkerHeartbeat.objects.using(dispatch.alias()).aggregate(at=Max("at"))[
        "at"
    ]
    return last
