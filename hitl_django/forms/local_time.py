"""Moments in the current time zone, as pages and mails write them."""

from __future__ import annotations

from datetime import datetime

from django.utils.formats import localize
from django.utils.timezone import is_aware, localtime


def to_local(moment: datetime) -> datetime:
    """Return a moment in the current time zone; with USE_TZ off it has none, and is local."""
    return localtime(moment) if is_aware(moment) else moment


def format_moment(moment: datetime) -> str:
    """Write a moment as everywhere, in the reader's language."""
    return str(localize(to_local(moment)))


def format_with_zone(moment: datetime) -> str:
    """Write a moment with its zone, which is the site's: whoever reads it may be in another."""
    return f"{format_moment(moment)} {to_local(moment).tzname() or ''}".rstrip()
