"""Columns of the review queue's list."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.timesince import timeuntil
from django.utils.translation import gettext as _

from hitl_django.admin.base import NOTHING, describe_place, format_age, format_entry, format_tick
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import format_moment
from hitl_django.models import Interrupt, Run
from hitl_django.models.review import QUEUE_COLUMNS

MINUTE = timedelta(minutes=1)


def select_columns(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Select only the database columns that the cells display."""
    return rows.only(*QUEUE_COLUMNS).annotate(
        run_state=F("run__state"),
        subject_app=F("thread__subject_type__app_label"),
        subject_model=F("thread__subject_type__model"),
        subject_id=F("thread__subject_id"),
    )


def format_checkbox(item: Any) -> str:
    """Return the HTML of the checkbox that selects an interrupt in its listed version."""
    return format_tick(get_checkbox_value(item), escape_hidden(item.title))


def get_checkbox_value(item: Interrupt) -> str:
    """Return the value of an interrupt's checkbox: the id, version and digest."""
    return f"{item.pk}.{item.version}.{item.payload_digest}"


def format_interrupt(item: Any) -> str:
    """Return the HTML of the first column: title, graph, node and marks of an interrupt."""
    return format_entry(item, item.title, describe_place(item), *list_marks(item))


def list_marks(item: Any) -> Iterator[str]:
    """Yield the HTML of the marks that show special properties of an interrupt."""
    if item.run_state not in Run.ANSWERABLE:
        yield _("on hold: run stopped")
    if item.quorum > 1:
        yield _("%(n)s of %(needed)s approvals") % {"n": item.approvals, "needed": item.quorum}
    if item.escalated_at is not None:
        yield _("expired")
    if item.priority > 0:
        yield _("priority %(n)s") % {"n": item.priority}


def format_subject(item: Any) -> str:
    """Return the related object's text, as a link if the user can view the object."""
    about = item.subject
    if not about.url:
        return format_html("<bdi>{}</bdi>", escape_hidden(about.label)) if about.label else NOTHING
    return format_html('<a href="{}"><bdi>{}</bdi></a>', about.url, escape_hidden(about.label))


def format_waiting(item: Any) -> str:
    """Return the time an interrupt has been pending."""
    return _moment(item.created_at, format_age(item.created_at) or _("just now"))


def format_due(item: Any) -> str:
    """Return the due time or the overdue mark, and the time of expiry, as HTML."""
    now = timezone.now()
    lines: list[str] = []
    if item.due_at is not None and item.due_at <= now:
        late = format_age(item.due_at) or _("less than a minute")
        words = _("overdue by %(time)s") % {"time": late}
        lines.append(format_html('<strong class="hitl-late">{}</strong>', words))
    elif item.due_at is not None:
        words = _("in %(time)s") % {"time": _until(item.due_at)}
        lines.append(_moment(item.due_at, words))
    if item.expires_at is not None and item.expires_at <= now:
        lines.append(_moment(item.expires_at, _("expired")))
    elif item.expires_at is not None:
        words = _("expires in %(time)s") % {"time": _until(item.expires_at)}
        lines.append(_moment(item.expires_at, words))
    return _lines(lines)


def format_claimed_by(item: Any) -> str:
    """Return the claim, the assignee and the end of the snooze of an interrupt, as HTML."""
    now = timezone.now()
    lines: list[str] = []
    if item.claimed_until is not None and item.claimed_until > now:
        mine = item.claimed_by_id == item.viewer.pk
        who = _("you") if mine else escape_hidden(item.claimed_by_label)
        words = _("for %(time)s") % {"time": _until(item.claimed_until)}
        lines.append(format_html("<bdi><strong>{}</strong></bdi>, {}", who, words))
    if item.assignee_label or item.group_label:
        names = [name for name in (item.assignee_label, item.group_label) if name]
        bdis = format_html_join(", ", "<bdi>{}</bdi>", ((escape_hidden(name),) for name in names))
        lines.append(format_html("{} {}", _("assigned to"), bdis))
    if item.snoozed_until is not None and item.snoozed_until > now:
        words = _("snoozed for %(time)s") % {"time": _until(item.snoozed_until)}
        lines.append(_moment(item.snoozed_until, words))
    return _lines(lines)


def _lines(lines: list[str]) -> str:
    if not lines:
        return NOTHING
    return format_html_join("", '<span class="hitl-line">{}</span>', ((line,) for line in lines))


def _until(moment: datetime) -> str:
    left = moment - timezone.now()
    return timeuntil(moment, depth=1) if left >= MINUTE else _("less than a minute")


def _moment(moment: datetime, words: Any) -> str:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        format_moment(moment),
        words,
    )
