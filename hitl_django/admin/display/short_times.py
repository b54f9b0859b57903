"""Short texts for durations and times of lists."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django.forms.local_time import format_moment

MINUTE = timedelta(minutes=1)
#: Units from the largest, each with the text for a number of them.
UNITS = (
    (timedelta(days=365), _("%(n)d y")),
    (timedelta(days=1), _("%(n)d d")),
    (timedelta(hours=1), _("%(n)d h")),
    (MINUTE, _("%(n)d min")),
)


def format_duration(duration: timedelta) -> str:
    """Return a duration in its largest whole unit; less than a minute counts as a minute."""
    duration = max(duration, MINUTE)
    unit, text = next(each for each in UNITS if duration >= each[0])
    return str(text) % {"n": duration // unit}


def format_since(moment: datetime) -> str:
    """Return the time elapsed since a moment."""
    return format_duration(timezone.now() - moment)


def format_until(moment: datetime) -> str:
    """Return the time left until a moment."""
    return format_duration(moment - timezone.now())


def mark_time(moment: datetime, text: Any, css: str = "") -> str:
    """Return a text as a ``<time>`` element with the exact time as its title."""
    return format_html(
        '<time datetime="{}" title="{}" class="{}">{}</time>',
        moment.isoformat(),
        format_moment(moment),
        css,
        text,
    )
