"""Due times of schedules on the database's clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.db.clock import read_clock, to_stored, to_utc

from .cron import Cron
from .models import Schedule


def build_run_metadata(
    metadata: dict[str, Any], schedule_id: UUID, due_at: datetime
) -> dict[str, Any]:
    """Return the metadata of the run that a schedule with this metadata starts at ``due_at``."""
    moment = due_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {**metadata, "schedule": str(schedule_id), "due_at": moment}


def select_schedules() -> QuerySet[Schedule]:
    return Schedule.objects.using(write_alias())


def read_now() -> datetime:
    """Return the database's time in UTC."""
    return to_utc(read_clock(write_alias()))


def find_next(cron: Cron, ends_at: datetime | None = None) -> datetime | None:
    """Return the first due time after the current time and up to ``ends_at``, or None.

    The result is aware or naive like the datetimes that Django stores.
    """
    return find_next_after(cron, read_now(), ends_at)


def find_next_after(cron: Cron, after: datetime, ends_at: datetime | None) -> datetime | None:
    found = cron.find_next(after)
    if found is None or (ends_at is not None and found > to_utc(ends_at)):
        return None
    return to_stored(found)
