"""The database's clock, and moments as it stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic

from django.conf import settings
from django.db import connections
from django.utils import timezone

from . import raw_cursor

#: How long a process goes by what it has read of a clock.
KEEP_SECONDS = 60.0

#: When the clock of a database was read, by this machine's steady clock, and what it said.
_read: dict[str, tuple[float, datetime]] = {}


def read_clock(using: str) -> datetime:
    """Return the database's time: read from it once a minute, and carried on in between."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return timezone.now()  # this machine's clock is the database's as well
    at, now = _read.get(using, (0.0, None))
    passed = monotonic() - at
    if now is not None and passed < KEEP_SECONDS:
        return to_stored(now + timedelta(seconds=passed))

    before = monotonic()
    with raw_cursor.open_cursor(connection) as cursor:
        # In UTC also with USE_TZ off, where a time of the night that clocks go back is ambiguous.
        cursor.execute("SELECT STATEMENT_TIMESTAMP() AT TIME ZONE 'UTC'", ())
        [[read]] = cursor.fetchall()
    now = read.replace(tzinfo=UTC)
    # Timed before the look, as if it had taken no time: a moment that is said is never in future.
    _read[using] = before, now
    return to_stored(now)


def to_stored(moment: datetime) -> datetime:
    """Return a moment as Django stores it: aware, or naive and local with USE_TZ off."""
    if timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)


def to_utc(moment: datetime) -> datetime:
    """Return a stored moment in UTC, aware also with USE_TZ off."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)


def forget() -> None:
    """Has every clock read again when it is next asked for."""
    _read.clear()
