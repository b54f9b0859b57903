"""Short texts for durations and times in lists."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from hitl_django.forms.local_time import format_moment

MINUTE = timedelta(minutes=1)
#: A deadline within this time is marked.
SOON = timedelta(hours=2)
#: Units from the largest, each with the text for a number of them.
UNITS = (
    (timedelta(days=365), gettext_lazy("%(n)d y")),
    (timedelta(days=1), gettext_lazy("%(n)d d")),
    (timedelta(hours=1), gettext_lazy("%(n)d h")),
    (MINUTE, gettext_lazy("%(n)d min")),
)


def format_duration(duration: timedelta) -> str:
    """Return a duration in its largest whole unit. Less than one minute counts as one minute."""
    duration = max(duration, MINUTE)
    unit, text = next(each for each in UNITS if duration >= each[0])
    return str(text) % {"n": duration // unit}


def format_since(moment: datetime) -> str:
    """Return the time that has passed since ``moment`` as a short text."""
    return format_duration(timezone.now() - moment)


def format_until(moment: datetime) -> str:
    """Return the time that is left until ``moment`` as a short text."""
    return format_duration(moment - timezone.now())


def mark_time(moment: datetime, text: Any, css: str = "") -> str:
    """Return a text as a ``<time>`` element. Its tooltip is the exact time."""
    return format_html(
        '<time datetime="{}" title="{}" class="{}">{}</time>',
        moment.isoformat(),
        format_moment(moment),
        css,
        text,
    )


def format_due(item: Any) -> str:
    """Return the next deadline of an interrupt as HTML, or an empty string without a deadline."""
    now = timezone.now()
    if item.due_at is not None and item.due_at <= now:
        text = _("Overdue %(time)s") % {"time": format_since(item.due_at)}
        return mark_time(item.due_at, text, "is-late")
    times = [(item.due_at, _("Due in %(time)s")), (item.expires_at, _("Expires in %(time)s"))]
    known = [(moment, text) for moment, text in times if moment is not None]
    if not known:
        return ""
    moment, text = min(known)
    if moment <= now:
        return mark_time(moment, _("Expired"), "is-late")
    soon = "is-soon" if moment - now <= SOON else ""
    return mark_time(moment, text % {"time": format_until(moment)}, soon)
