"""Timeline of a thread, newest first: runs, steps, interrupts and people's actions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any

from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from hitl_django import services
from hitl_django.db.clock import to_stored, to_utc
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import list_extensions
from hitl_django.models import AuditEntry, Checkpoint, Decision, Interrupt, ReviewItem, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import select_visible
from hitl_django.services.runs.history import read_steps

from .payload_display import MAX_TEXT

#: Number of entries per page.
PAGE_SIZE = 60


#: Text of an audit entry by verb. Entries with other verbs show the verb.
VERB_TEXTS: dict[str, Any] = {
    "start": gettext_lazy("Started a run"),
    "decide": gettext_lazy("Decided"),
    "approve": gettext_lazy("Added an approval"),
    "undo": gettext_lazy("Undid a decision"),
    "cancel": gettext_lazy("Cancelled the run"),
    "retry": gettext_lazy("Retried the run"),
    "fork": gettext_lazy("Forked from an earlier step"),
    "import": gettext_lazy("Imported the thread from LangGraph"),
    "create_thread": gettext_lazy("Created the thread"),
    "copy_thread": gettext_lazy("Copied the thread"),
    "thread_copied": gettext_lazy("Copied the thread"),
    "change_metadata": gettext_lazy("Changed metadata"),
    "update_state": gettext_lazy("Updated the state"),
    "discard": gettext_lazy("Discarded the previous run"),
    "expire": gettext_lazy("A request expired"),
    "supersede": gettext_lazy("Withdrew requests"),
    "reopen": gettext_lazy("A response was rejected by the graph"),
    "interrupt_changed": gettext_lazy("Request changed after it was decided"),
    "claim": gettext_lazy("Claimed a request"),
    "release": gettext_lazy("Released a claim"),
    "take_over": gettext_lazy("Took over a claim"),
    "assign": gettext_lazy("Assigned a request"),
    "snooze": gettext_lazy("Snoozed a request"),
    "comment": gettext_lazy("Commented"),
    "refuse": gettext_lazy("Permission denied"),
    "erase": gettext_lazy("Erased the thread's contents"),
    "pseudonymize_user": gettext_lazy("Replaced a person with a pseudonym"),
}


#: Text of an audit entry about an expired interrupt, by the interrupt's expiry action.
EXPIRED: dict[str, Any] = {
    "answer": gettext_lazy("Request expired: default response sent"),
    "cancel": gettext_lazy("Request expired: run cancelled"),
    "park": gettext_lazy("Request expired: run parked"),
    "keep": gettext_lazy("Request expired: still pending"),
    "escalate": gettext_lazy("Request expired: escalated to another group"),
}

#: Text of an audit entry about a decision, by verb.
DECIDED: dict[str, Any] = {
    "decide": "%(done)s",
    "approve": gettext_lazy("%(done)s, more approvals needed"),
}


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event on the timeline, with the type of the event, a text and a link."""

    at: datetime
    kind: str
    label: str
    text: str = ""
    by_label: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """One page of events.

    ``before`` is the value of the URL parameter ``before`` in the link to the next page. On the
    last page, ``before`` is empty.
    """

    moments: list[HistoryEntry]
    before: str


def read_history(request: HttpRequest, thread: Thread, before: str) -> HistoryPage:
    """Return the events of a thread before a time, limited to those visible to the user.

    Each kind of event is read with one query, which has a limit.
    """
    until = _moment(before)
    found: list[HistoryEntry] = []
    for gather in (_runs, _interrupts, _steps, _entries):
        found += gather(request, thread, until)
    # Compare the times in Python again, because SQLite compares its timestamps as text of another
    # format.
    found = [moment for moment in found if until is None or moment.at < until]
    found.sort(key=lambda moment: moment.at, reverse=True)
    page = found[:PAGE_SIZE]
    if len(found) <= PAGE_SIZE:
        return HistoryPage(page, "")
    # Keep events with the same timestamp on one page.
    page += [moment for moment in found[PAGE_SIZE:] if moment.at == page[-1].at]
    return HistoryPage(page, page[-1].at.isoformat())


def _moment(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        found = parse_datetime(text)
        if found is None:
            return None
        moment = to_utc(found)
        # The time must be a valid datetime in every time zone.
        return to_stored(moment) if MINYEAR < moment.year < MAXYEAR else None
    return None


def _bounded(rows: QuerySet[Any], name: str, until: datetime | None) -> QuerySet[Any]:
    if until is not None:
        rows = rows.filter(**{f"{name}__lt": until})
    return rows.order_by(F(name).desc(), "-pk")[: 2 * PAGE_SIZE]


def _runs(request: HttpRequest, thread: Thread, until: datetime | None) -> Iterator[HistoryEntry]:
    rows = select_visible(Run.objects.filter(thread=thread), request.user)
    rows = rows.defer(*Run.LARGE_COLUMNS)
    for run in _bounded(rows, "created_at", until):
        url = find_admin_page(Run, "change", run.pk, request=request)
        waits = run.state == Run.State.WAITING
        label = _("Run waiting for earlier runs") if waits else _("Run started")
        yield HistoryEntry(run.created_at, "run", label, "", run.started_by_label, url)
    ended = rows.filter(finished_at__isnull=False)
    for run in _bounded(ended, "finished_at", until):
        url = find_admin_page(Run, "change", run.pk, request=request)
        label = _("Run ended: %(state)s") % {"state": run.get_state_display()}
        yield HistoryEntry(run.finished_at, run.state, label, "", "", url)


def _interrupts(
    request: HttpRequest, thread: Thread, until: datetime | None
) -> Iterator[HistoryEntry]:
    rows = Interrupt.objects.filter(thread=thread).defer(*LARGE_COLUMNS)
    rows = select_visible(rows, request.user)
    for item in _bounded(rows, "created_at", until):
        url = find_admin_page(ReviewItem, "change", item.pk, request=request)
        yield HistoryEntry(item.created_at, "interrupt", _("Review requested"), item.title, "", url)
    # Decisions are read from the audit log. Interrupts closed without a decision have no author.
    closed = rows.filter(closed_at__isnull=False).exclude(status=Interrupt.Status.DECIDED)
    for item in _bounded(closed, "closed_at", until):
        url = find_admin_page(ReviewItem, "change", item.pk, request=request)
        label = _("Request closed: %(status)s") % {"status": item.get_status_display()}
        yield HistoryEntry(item.closed_at, "closed", label, item.title, "", url)


def _steps(request: HttpRequest, thread: Thread, until: datetime | None) -> Iterator[HistoryEntry]:
    rows = Checkpoint.objects.filter(thread=thread, ns="")
    for row in _bounded(rows.only("step", "source", "created_at"), "created_at", until):
        label = _("Step %(step)s") % {"step": row.step} if row.step >= 0 else _("Input")
        yield HistoryEntry(row.created_at, "step", label)


def _entries(
    request: HttpRequest, thread: Thread, until: datetime | None
) -> Iterator[HistoryEntry]:
    for entry in _bounded(visible_entries(request, thread.pk), "at", until):
        yield HistoryEntry(
            entry.at, "entry", describe_entry(entry), get_reason(entry), entry.actor_label
        )


def visible_entries(request: HttpRequest, thread: int) -> QuerySet[AuditEntry]:
    """Return the visible audit entries of a thread.

    Entries about interrupts or runs hidden from the user are omitted.
    """
    entries = AuditEntry.objects.filter(thread=thread)
    for model in (Interrupt, Run):
        rows: QuerySet[Any] = model._default_manager.filter(thread=thread)
        seen = select_visible(rows, request.user)
        if seen is not rows:  # A policy may hide some rows from this user.
            hidden = rows.exclude(pk__in=seen.values("pk")).values_list("pk", flat=True)
            entries = entries.exclude(subject__in=[str(pk) for pk in hidden])
    return entries


def get_reason(entry: AuditEntry) -> str:
    """Return the reason given for cancelling a run, or an empty string if the reason was erased."""
    reason = entry.detail.get("reason") if entry.verb == "cancel" else None
    return reason[:MAX_TEXT] if isinstance(reason, str) else ""


def _label_verb(verb: str) -> str:
    for labels in (VERB_TEXTS, *(each.audit_verbs for each in list_extensions())):
        if verb in labels:
            return str(labels[verb])
    return verb


def describe_entry(entry: AuditEntry) -> str:
    """Return the displayed text of an audit entry."""
    label, kind = _label_verb(entry.verb), entry.detail.get("type")
    if not isinstance(kind, str):
        return label
    if entry.verb == "expire" and kind in EXPIRED:
        return str(EXPIRED[kind])
    if entry.verb in DECIDED and kind in DECISION_TYPES:
        words = DECIDED[entry.verb] % {"done": capfirst(str(DECISION_TYPES[kind].participle))}
    else:
        words = f"{label}: {dict(Decision.Type.choices).get(kind, kind)}"
    claimed_by = entry.detail.get("claimed_by")
    if not isinstance(claimed_by, str):
        return words
    return _("%(decided)s, while claimed by %(who)s") % {"decided": words, "who": claimed_by}


def list_steps(
    request: HttpRequest, thread: Thread, *, limit: int = 20, is_visible: bool = False
) -> services.History | None:
    """Return a page of a thread's steps, or None if the user can't view the thread's state.

    Pass ``is_visible`` if the caller has already checked that the user can view the thread.
    """
    before, by = request.GET.get("steps_before") or None, request.user
    try:
        if is_visible:
            return read_steps(thread, before=before, limit=limit, by=by)
        return services.thread_history(thread.thread_id, before=before, limit=limit, by=by)
    except (NotAllowedError, ThreadNotFound):
        return None
