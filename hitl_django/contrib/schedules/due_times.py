"""Due times of schedules on the database's clock."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.db.clock import read_clock, to_stored, to_utc

from .cron import Cron
from .models import Schedule


def select_schedules() -> QuerySet[Schedule]:
    return Schedule.objects.using(write_alias())


def read_now() -> datetime:
    """Return the database's time in UTC."""
    return to_utc(read_clock(write_alias()))


def find_next(cron: Cron) -> datetime | None:
    """Return the first due time after the current time, or None.

    The result is aware or naive like the datetimes that Django stores.
    """
    found = cron.find_next(read_now())
    return None if found is None else to_stored(found)
