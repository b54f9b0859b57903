"""The database's clock, and times in the form in which the database stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic

from django.conf import settings
from django.db import connections
from django.utils import timezone

from . import raw_cursor

#: Seconds after which the database's clock is read again.
KEEP_SECONDS = 60.0

#: The monotonic time at which each database's clock was read, and the value that was read.
_read: dict[str, tuple[float, datetime]] = {}


def read_clock(using: str) -> datetime:
    """Return the time of the database's clock.

    The clock is read once a minute. In between, the time is computed from the last value.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        return timezone.now()  # The database uses this machine's clock.
    at, now = _read.get(using, (0.0, None))
    passed = monotonic() - at
    if now is not None and passed < KEEP_SECONDS:
        return to_stored(now + timedelta(seconds=passed))

    before = monotonic()
    with raw_cursor.open_cursor(connection) as cursor:
        # The time is read in UTC even with USE_TZ off, because local times are ambiguous at the end
        # of daylight saving time.
        cursor.execute("SELECT STATEMENT_TIMESTAMP() AT TIME ZONE 'UTC'", ())
        [[read]] = cursor.fetchall()
    now = read.replace(tzinfo=UTC)
    # The time before the query is used, so that returned times are never in the future.
    _read[using] = before, now
    return to_stored(now)


def to_stored(moment: datetime) -> datetime:
    """Return a time in the form in which Django stores it.

    The result is an aware time, or a naive local time if USE_TZ is off.

    Raises:
        TypeError: the argument is not a datetime.
    """
    if not isinstance(moment, datetime):
        raise TypeError(f"Expected a datetime, not {moment!r}.")
    if timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)


def to_utc(moment: datetime) -> datetime:
    """Return a stored time as an aware datetime in UTC, even if USE_TZ is off."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)


def forget() -> None:
    """Discard the cached times of all databases, so that the clocks are read again."""
    _read.clear()
