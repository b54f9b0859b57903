"""django-q2 schedules of the sweep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connections, router
from django.utils import timezone
from django_q.models import Schedule

from hitl_django.conf import hitl
from hitl_django.task_queue import dispatcher

from . import named_cluster

NAME = "hitl_django sweep"
#: Seconds between two of django-q2's checks of its schedules. The unit of schedules is a minute.
TICK = 30
MINUTE = 60


def install_schedules(*, using: str, **kwargs: Any) -> None:
    """Create the missing django-q2 schedules of the sweep.

    If a schedule exists, only its cluster name is updated. Schedules that are no longer needed are
    deleted.
    """
    table = Schedule._meta.db_table
    if using != router.db_for_write(Schedule):
        return
    if table not in connections[using].introspection.table_names():
        return  # django_q will be migrated later, or isn't installed.

    wanted = [f"{NAME} {number + 1}" for number in range(count_schedules())]
    installed = Schedule.objects.using(using).filter(name__startswith=NAME)
    installed.exclude(name__in=wanted).delete()
    installed.update(cluster=named_cluster.get_name())
    known = set(installed.values_list("name", flat=True))
    for number, name in enumerate(wanted):
        if name not in known:
            _create(name, using, delay=number * TICK)


def count_schedules() -> int:
    """Return the number of schedules that are needed to run the sweep every SWEEP_SECONDS.

    A schedule of django-q2 runs at most once per minute. If SWEEP_SECONDS is less than a minute,
    two schedules are needed, 30 seconds apart.
    """
    return 1 if hitl.SWEEP_SECONDS >= MINUTE else MINUTE // TICK


def _create(name: str, using: str, *, delay: int) -> None:
    Schedule.objects.using(using).create(
        name=name,
        func=dispatcher.SWEEP,
        cluster=named_cluster.get_name(),
        kwargs="q_options={'save': False, 'ack_failure': True}",
        schedule_type=Schedule.MINUTES,
        minutes=max(1, round(hitl.SWEEP_SECONDS / MINUTE)),
        next_run=timezone.now() + timedelta(seconds=delay),
        repeats=-1,
    )
