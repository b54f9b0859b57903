"""Export of the audit log of a period or a thread.

Each page of rows is read by a separate query, so no cursor stays open while a client downloads the
export. The memory used doesn't depend on the length of the period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from hitl_django import audit
from hitl_django.db.alias import write_alias
from hitl_django.errors import NoSuchThread, NotAllowedError
from hitl_django.models import AuditEntry, Interrupt, Thread
from hitl_django.permissions import find_row, get_policy, select_visible

from .periods import Period, may_view_reviewer_reports, select_decided

#: Maximum numbers of entries of one thread, and of threads, that one query reads.
PAGE, THREADS = 1000, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedEntry:
    """An entry of the audit log.

    ``hash`` is the hash of ``prev_hash`` followed by ``hashed``. ``hashed`` is the text of the
    entry, in which each name of a person is replaced by the SHA-256 of a salt and the name.
    ``names`` contains these names with their salts. A name without a salt is a pseudonym that has
    replaced a user's name. A later entry of the log describes this replacement.
    """

    thread_id: str
    seq: int
    at: datetime
    verb: str
    subject: str
    actor: str
    via: str
    prev_hash: str
    hash: str
    hashed: str
    names: Mapping[str, Mapping[str, str]]


def export_audit_log(
    user: Any, period: Period, *, graph: str | None = None
) -> Iterator[ExportedEntry]:
    """Yield all audit log entries of each thread with a decision in a period.

    The entries of a thread are consecutive and ordered. Entries contain names of people. A hash
    chain can only be verified if it is complete, so threads are omitted if the user may not see all
    of their interrupts.

    Raises:
        NotAllowedError: if the user may not export, or may not view statistics of reviewers.
    """
    refuse_export_unless(user, get_policy().may_export)
    refuse_export_unless(user, may_view_reviewer_reports)
    return _read_record(user, period, graph)


def list_audit_entries(
    thread_id: str, *, after: int = 0, limit: int = PAGE, by: Any = None
) -> list[ExportedEntry]:
    """Return the audit log entries of a thread after the number ``after``, in order.

    At most ``limit`` entries are returned.

    Raises:
        NoSuchThread: if the user may not see the thread.
        NotAllowedError: if the user may not see all interrupts of the thread, may not export, or
            may not view statistics of reviewers.
    """
    threads = Thread.objects.using(write_alias())
    thread = find_row(select_visible(threads, by), NoSuchThread, thread_id=thread_id)
    refuse_export_unless(by, get_policy().may_export)
    refuse_export_unless(by, may_view_reviewer_reports)
    if not _exclude_hidden(threads.filter(pk=thread.pk), by).exists():
        raise NotAllowedError(
            "You don't have permission to view the full audit log of this thread."
        )
    entries = AuditEntry.objects.using(write_alias()).filter(thread=thread, seq__gt=after)
    return [_build_entry(entry, thread_id) for entry in entries.order_by("seq")[:limit]]


def refuse_export_unless(user: Any, may: Any) -> None:
    if user is not None and not may(user):
        raise NotAllowedError("You don't have permission to export this.")


def _read_record(user: Any, period: Period, graph: str | None) -> Iterator[ExportedEntry]:
    decided = select_decided(user, period, graph=graph)
    threads = Thread.objects.using(write_alias()).order_by("pk")
    threads = threads.filter(pk__in=decided.values("interrupt__thread"))
    threads = _exclude_hidden(select_visible(threads, user), user)
    last = 0
    while page := list(threads.filter(pk__gt=last).values_list("pk", "thread_id")[:THREADS]):
        yield from _read_entries(dict(page))
        last = page[-1][0]


def _exclude_hidden(threads: QuerySet[Thread], user: Any) -> QuerySet[Thread]:
    interrupts = Interrupt.objects.using(write_alias()).order_by()
    seen = select_visible(interrupts, user)
    if seen is interrupts:
        return threads
    hidden = interrupts.exclude(pk__in=seen.values("pk"))
    return threads.exclude(pk__in=hidden.values("thread"))


def _read_entries(names: dict[Any, str]) -> Iterator[ExportedEntry]:
    entries = AuditEntry.objects.using(write_alias()).filter(thread__in=names)
    # Don't use a server-side cursor, because it would stay open while the client downloads.
    for entry in entries.order_by("thread_id", "seq"):
        yield _build_entry(entry, names[entry.thread_id])


def _build_entry(entry: AuditEntry, thread_id: str) -> ExportedEntry:
    return ExportedEntry(
        thread_id=thread_id,
        seq=entry.seq,
        at=entry.at,
        verb=entry.verb,
        subject=entry.subject,
        actor=entry.actor_label,
        via=entry.via,
        prev_hash=entry.prev_hash,
        hash=entry.hash,
        hashed=audit.get_hashed_text(entry, thread_id),
        names=audit.get_shown_names(entry),
    )
