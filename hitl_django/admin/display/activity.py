"""Activity of a request: comments, and entries of the audit log, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from hitl_django.audit import SYSTEM
from hitl_django.forms.local_time import format_moment
from hitl_django.models import AuditEntry, Comment, Interrupt, Thread
from hitl_django.permissions import get_policy, select_visible

from .comment_display import display_comment
from .history_display import describe_entry
from .initials import get_initials

#: Maximum number of comments, and of entries of the audit log, on a page.
MOST = 100
#: Verbs that are omitted. The comment itself is shown instead of its entry.
OMITTED = ("comment", "refuse")


@dataclass(frozen=True, slots=True)
class Activity:
    """A comment or another action on a request.

    A comment has its HTML in ``comment``. Another action has its description in ``text``.
    ``by_label`` is the person's name, or empty if no person performed the action.
    """

    at: datetime
    by_label: str
    text: str = ""
    comment: str = ""

    @property
    def initials(self) -> str:
        """The initials of the person."""
        return get_initials(self.by_label) if self.by_label else ""


def list_activities(items: Sequence[Interrupt], user: Any) -> dict[Any, list[Activity]]:
    """Return the activities of interrupts of one thread, by interrupt id, oldest first.

    Comments are visible to users who may view the comments of the interrupt. Entries of the audit
    log are visible to users who can view the thread.
    """
    found: dict[Any, list[Activity]] = {item.pk: [] for item in items}
    may_view = get_policy().may_view_comments
    commented = [item.pk for item in items if may_view(user, item)]
    comments = Comment.objects.filter(interrupt__in=commented).order_by("-created_at", "-id")
    for comment in comments[:MOST]:
        shown = display_comment(comment)
        activity = Activity(shown.created_at, shown.by_label, comment=shown.html)
        found[comment.interrupt_id].append(activity)
    keys = {str(key): key for key in found}
    threads = Thread.objects.filter(pk__in={item.thread_id for item in items})
    entries = AuditEntry.objects.filter(thread__in=select_visible(threads, user), subject__in=keys)
    for entry in entries.exclude(verb__in=OMITTED).order_by("-seq")[:MOST]:
        by_label = "" if entry.actor_label == SYSTEM else entry.actor_label
        activity = Activity(entry.at, by_label, _describe(entry))
        found[keys[entry.subject]].append(activity)
    for item in items:
        found[item.pk].append(Activity(item.created_at, "", _("Review requested")))
        found[item.pk].sort(key=lambda activity: activity.at)
    return found


def _describe(entry: AuditEntry) -> str:
    detail = entry.detail
    if entry.verb == "assign":
        names = [name for name in (detail.get("to"), detail.get("group")) if name]
        words = _("Assigned to %(names)s.") % {"names": ", ".join(map(str, names))}
        return words if names else _("Unassigned.")
    if entry.verb == "snooze":
        until = detail.get("until")
        moment = parse_datetime(until) if isinstance(until, str) else None
        if moment is None:
            return _("Returned to the queue")
        return _("Snoozed until %(moment)s") % {"moment": format_moment(moment)}
    return describe_entry(entry)
