"""Rows of the review queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hitl_django.admin.base import ERASED, name_graph
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Comment, Run
from hitl_django.models.review import QUEUE_COLUMNS

from .bulk_buttons import get_checkbox_value
from .initials import get_initials
from .key_facts import KeyFacts, list_cells, list_key_facts, with_payload
from .payload_display import DisplayedValue
from .short_times import (
    format_due,
    format_since,
    format_until,
    mark_time,
)
from .subject_links import SubjectLink


@dataclass(frozen=True, slots=True)
class Mark:
    """A label that marks a property of an interrupt, with a shorter text for narrow lists."""

    text: str
    short: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Responsible:
    """The user with the claim, or the user or group to which an interrupt is assigned."""

    text: str
    initials: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A row of the review queue: the texts and links that it shows for an interrupt."""

    id: Any
    url: str
    title: str
    checkbox: str
    graph: str
    priority: int
    marks: list[Mark]
    comments: str
    comment_count: int
    facts: KeyFacts
    #: The values of the facts' columns. Empty unless the list has such columns.
    cells: list[DisplayedValue | None]
    subject: SubjectLink
    responsible: Responsible | None
    due: str
    age: str

    @classmethod
    def build(
        cls,
        item: Any,
        user: Any,
        url: str,
        subject: SubjectLink,
        search: str,
        *,
        has_columns: bool = False,
    ) -> QueueRow:
        """Build the row of an interrupt that was loaded with ``select_rows``.

        ``url`` is the URL of the interrupt's page, and ``search`` the searched text. If
        ``has_columns`` is true, the row has a cell for each column of ``list_fact_columns``.
        """
        comments = ngettext("%(n)d comment", "%(n)d comments", item.comment_count)
        return cls(
            id=item.pk,
            url=url,
            title=escape_hidden(item.title) or str(ERASED),
            checkbox=get_checkbox_value(item),
            graph=name_graph(item.graph),
            priority=item.priority,
            marks=_list_marks(item),
            comments=comments % {"n": item.comment_count} if item.comment_count else "",
            comment_count=item.comment_count,
            facts=list_key_facts(item, search),
            cells=list_cells(item) if has_columns else [],
            subject=subject,
            responsible=_find_responsible(item, user),
            due=format_due(item),
            age=mark_time(item.created_at, format_since(item.created_at), "hitl-age"),
        )

    @property
    def level(self) -> str:
        """The name of the icon for the priority, empty for the normal priority."""
        if self.priority > 0:
            return "urgent" if self.priority > 1 else "high"
        return "low" if self.priority < 0 else ""


def select_rows(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Load only the columns that a row of the list shows."""
    comments = (
        Comment.objects.filter(interrupt=OuterRef("pk"))
        .order_by()
        .values("interrupt")
        .annotate(n=Count("pk"))
        .values("n")
    )
    return with_payload(rows.only(*QUEUE_COLUMNS, "dialect")).annotate(
        comment_count=Coalesce(Subquery(comments), 0),
        run_state=F("run__state"),
        subject_app=F("thread__subject_type__app_label"),
        subject_model=F("thread__subject_type__model"),
        subject_id=F("thread__subject_id"),
    )


def _list_marks(item: Any) -> list[Mark]:
    marks = []
    if item.run_state not in Run.ANSWERABLE:
        text = _("on hold: run stopped")
        marks.append(Mark(text, text, "is-warn"))
    if item.quorum > 1:
        counts = {"n": item.approvals, "needed": item.quorum}
        text, short = _("%(n)s of %(needed)s approvals"), _("%(n)s of %(needed)s")
        marks.append(Mark(text % counts, short % counts, "is-info"))
    if item.escalated_at is not None:
        marks.append(Mark(_("expired"), _("expired"), "is-bad"))
    if item.snoozed_until is not None and item.snoozed_until > timezone.now():
        text = _("Snoozed for %(time)s") % {"time": format_until(item.snoozed_until)}
        marks.append(Mark(text, text))
    return marks


def _find_responsible(item: Any, user: Any) -> Responsible | None:
    if item.claimed_until is not None and item.claimed_until > timezone.now():
        name = escape_hidden(item.claimed_by_label)
        if item.claimed_by_id == user.pk:
            return Responsible(_("Claimed by you"), get_initials(name), "is-me")
        return Responsible(_("Claimed by %(name)s") % {"name": name}, get_initials(name))
    names = [escape_hidden(name) for name in (item.assignee_label, item.group_label) if name]
    if not names:
        return None
    if item.assignee_id == user.pk:
        return Responsible(_("You"), get_initials(names[0]), "is-me")
    style = "" if item.assignee_label else "is-group"
    return Responsible(", ".join(names), get_initials(names[0]), style)
