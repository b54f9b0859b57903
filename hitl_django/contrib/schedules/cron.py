"""Due times of cron expressions, in the local time of a time zone.

The library cronsim, which the extra ``hitl-django[schedules]`` installs, parses the expressions.
For expressions with fixed hours and minutes, clock changes have these effects: if clocks go
forward, due times in the missing hour move to the end of that hour. If clocks go back, due times in
the repeated hour occur once. An expression such as ``*/10 * * * *`` follows elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from zoneinfo import ZoneInfo

from hitl_django.engine.extras import MissingExtraError, require_extra

#: Name of the extra that installs cronsim, and the error if cronsim isn't installed.
EXTRA = "schedules"
MISSING = MissingExtraError("cronsim", EXTRA)
#: Maximum time by which a clock goes back.
LONGEST_CHANGE = timedelta(hours=3)
EXPRESSION_LENGTH, TIMEZONE_LENGTH = 100, 64


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid cron expression in a valid time zone."""

    expression: str
    timezone: str

    def find_next(self, after: datetime) -> datetime | None:
        """Return the first due time after ``after``, or None if the next fifty years have none."""
        return next(self.iterate(after), None)

    def iterate(self, after: datetime) -> Iterator[datetime]:
        """Yield the due times after ``after`` in order, in UTC."""
        with require_extra(EXTRA):
            from cronsim import CronSim

        for found in CronSim(self.expression, after.astimezone(ZoneInfo(self.timezone))):
            moment = found.astimezone(UTC)
            # In the repeated hour, cronsim starts with the first occurrence.
            if moment > after:
                after = moment
                yield moment

    def find_newest(self, until: datetime) -> datetime | None:
        """Return the last due time up to ``until``, or None."""
        with require_extra(EXTRA):
            from cronsim import CronSim

        # Just after clocks go back, the local time is earlier than it was at the last due time.
        begin = (until + LONGEST_CHANGE).astimezone(ZoneInfo(self.timezone))
        for found in CronSim(self.expression, begin, reverse=True):
            moment = found.astimezone(UTC)
            if moment <= until:
                return moment
        return None


def is_installed() -> bool:
    """Return whether cronsim is installed."""
    return find_spec("cronsim") is not None


def find_expression_fault(expression: str) -> str:
    """Return the error in a cron expression, or "" if the expression is valid."""
    if not is_installed():
        return f"can't be parsed: {MISSING}"
    from cronsim import CronSim, CronSimError

    if len(expression) > EXPRESSION_LENGTH:
        return f"is longer than {EXPRESSION_LENGTH} characters"
    if len(expression.split()) != 5:
        return "must have five fields: minute, hour, day of month, month, day of week"
    try:
        next(CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return f"can't be parsed: {str(error).lower()}"
    except StopIteration:
        return "never matches"
    return ""


def find_timezone_fault(timezone: str) -> str:
    """Return the error in the name of a time zone, or "" if the name is valid."""
    try:
        ZoneInfo(timezone)
    # The name is unknown, isn't a name, or is the name of a directory.
    except (KeyError, ValueError, OSError):
        return "is not a known time zone such as Europe/Berlin"
    return (
        "" if len(timezone) <= TIMEZONE_LENGTH else f"is longer than {TIMEZONE_LENGTH} characters"
    )
