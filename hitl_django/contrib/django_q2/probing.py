"""What of the queue is out of reach or missing, seen by trying."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.db import router
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import Schedule

from . import schedules


def probe() -> list[checks.CheckMessage]:
    """Reports a broker that can't be reached, and a sweep that nobody has scheduled."""
    return [*_broker(), *_schedules()]


def _broker() -> Iterator[checks.CheckMessage]:
    try:
        broker = get_broker()
        broker.ping()
        broker.queue_size()
    except Exception as error:  # whatever the broker's own library raises
        yield checks.Error(
            f"The queue's broker can't be reached: {type(error).__name__}: {error}",
            hint="Start it, or correct Q_CLUSTER. Nothing is lost meanwhile: what is queued now is "
            "hinted again by the sweep.",
            id="hitl_django.E030",
        )


def _schedules() -> Iterator[checks.CheckMessage]:
    using = router.db_for_write(Schedule)
    active = Schedule.objects.using(using).filter(name__startswith=schedules.NAME)
    missing = schedules.per_minute() - active.exclude(repeats=0).count()
    if missing > 0 and Conf.SCHEDULER:
        yield checks.Error(
            "The sweep isn't scheduled, so plain qcluster finds no run whose hint was lost.",
            hint="Run 'manage.py migrate', which schedules it.",
            id="hitl_django.E031",
        )
