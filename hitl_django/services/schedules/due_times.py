"""Due times of schedules, as the database has them."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from hitl_django.db.alias import write_alias
from hitl_django.db.clock import read_clock
from hitl_django.graph_registry.cron import Cron
from hitl_django.models import Schedule


def select_schedules() -> QuerySet[Schedule]:
    """Returns all schedules, where they are written."""
    return Schedule.objects.using(write_alias())


def read_now() -> datetime:
    """Returns the database's time in UTC."""
    return from_stored(read_clock(write_alias()))


def find_next(cron: Cron) -> datetime | None:
    """Returns the first due time from now on, as it is stored."""
    return to_stored(cron.find_next(read_now()))


def from_stored(moment: datetime) -> datetime:
    """Returns a stored moment in UTC; with USE_TZ off it has no time zone."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)


def to_stored(moment: datetime | None) -> datetime | None:
    """Returns a moment as it is stored."""
    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment)
