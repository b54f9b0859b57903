"""Cron expressions: what is due when, by the wall clock of a time zone.

They are read by cronsim, which need not be installed: it is what ``hitl-django[schedules]`` brings.
Where the clock is put forward, what would have come in the missing hour comes right after it; where
it is put back, what has come doesn't come again. That holds for expressions that name hours and
minutes; ``*/10 * * * *`` goes by what has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from zoneinfo import ZoneInfo

#: What has to be installed for any of it.
EXTRA = "hitl-django[schedules]"
#: By how much more than that no clock is put back at once.
LONGEST_CHANGE = timedelta(hours=3)
EXPRESSION_LENGTH, TIMEZONE_LENGTH = 100, 64


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone, both of which can be read."""

    expression: str
    timezone: str

    def find_next(self, after: datetime) -> datetime | None:
        """Return the first due time after a moment; None where there is none for fifty years."""
        return next(self.iterate(after), None)

    def iterate(self, after: datetime) -> Iterator[datetime]:
        """Yield the due times after a moment, in UTC and in order."""
        from cronsim import CronSim

        for found in CronSim(self.expression, after.astimezone(ZoneInfo(self.timezone))):
            moment = found.astimezone(UTC)
            # Within the hour that comes twice it begins with the first of the two.
            if moment > after:
                after = moment
                yield moment

    def find_newest(self, until: datetime) -> datetime | None:
        """Return the last due time that is not after a moment, however many were before it."""
        from cronsim import CronSim

        # Where the clock was just put back it shows less than it did at what was due before that.
        begin = (until + LONGEST_CHANGE).astimezone(ZoneInfo(self.timezone))
        for found in CronSim(self.expression, begin, reverse=True):
            moment = found.astimezone(UTC)
            if moment <= until:
                return moment
        return None


def is_installed() -> bool:
    """Return whether cron expressions can be read here."""
    return find_spec("cronsim") is not None


def find_expression_fault(expression: str) -> str:
    """Return what is wrong with a cron expression; empty where nothing is."""
    if not is_installed():
        return f"can't be parsed: {EXTRA} is not installed"
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
    """Return what is wrong with the name of a time zone; empty where nothing is."""
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or that of a directory
        return "is not a known time zone such as Europe/Berlin"
    return (
        "" if len(timezone) <= TIMEZONE_LENGTH else f"is longer than {TIMEZONE_LENGTH} characters"
    )
