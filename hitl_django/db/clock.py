"""The database's clock, for a moment that a row to come bears and that is hashed with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import monotonic

from django.db import connections
from django.utils import timezone

from . import raw_cursor

#: How long a process goes by what it has read of a clock.
KEEP_SECONDS = 60.0

#: When the clock of a database was read, by this machine's steady clock, and what it said.
_read: dict[str, tuple[float, datetime]] = {}


def read_clock(using: str) -> datetime:
    """Returns the database's time: read from it once a minute, and carried on in between."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return timezone.now()  # this machine's clock is the database's as well
    at, now = _read.get(using, (0.0, None))
    passed = monotonic() - at
    if now is not None and passed < KEEP_SECONDS:
        return now + timedelta(seconds=passed)

    before = monotonic()
    with raw_cursor.open_cursor(connection) as cursor:
        cursor.execute("SELECT STATEMENT_TIMESTAMP()", ())
        [[now]] = cursor.fetchall()
    # Timed before the look, as if it had taken no time: a moment that is said is never in future.
    _read[using] = before, now
    return now


def forget() -> None:
    """Has every clock read again when it is next asked for."""
    _read.clear()
