"""Display of times in the current time zone, in pages and emails."""

from __future__ import annotations

from datetime import date, datetime

from django.utils import timezone
from django.utils.formats import localize


def to_local(moment: datetime) -> datetime:
    """Convert a time to the current time zone. A naive time (USE_TZ off) is already local."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def today() -> date:
    """Return the current day in the current time zone."""
    return to_local(timezone.now()).date()


def format_moment(moment: datetime) -> str:
    """Format a time in the current language."""
    return str(localize(to_local(moment)))


def format_with_zone(moment: datetime) -> str:
    """Format a time with its time zone, for readers who may be in another time zone."""
    return f"{format_moment(moment)} {to_local(moment).tzname() or ''}".rstrip()
