"""Services of archived threads: read and restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet

from hitl_django import audit
from hitl_django.answers import read_options
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NoSuchThread, NotAllowedError, ThreadExistsError
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Comment, Decision, Interrupt, Run, RunEvent
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services.runs.state import render_json

from .document import read_document
from .models import ArchivedThread
from .moves import unarchive

#: Tables whose rows are included. State and history are available only after restoring the thread.
SHOWN = (Run, Interrupt, Decision, Comment, RunEvent, AuditEntry)
#: Columns of runs that contain state: the input of a run that never started.
UNSHOWN = ("input",)
#: Columns of runs that only operators may see.
OPERATORS = ("error", "traceback")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedThreadInfo:
    """An archived thread, with its rows as plain JSON by model name."""

    thread_id: str
    graph: str
    key: str | None
    state: str
    started_at: datetime
    ended_at: datetime
    archived_at: datetime
    rows: Mapping[str, Sequence[Mapping[str, Any]]]


def archived_thread(thread_id: str, *, by: Any = None) -> ArchivedThreadInfo:
    """Return an archived thread with its rows.

    Raises:
        ThreadNotFound: if the thread isn't archived, or ``by`` may not view it.
        CorruptPayloadError: if the thread's document is damaged.
    """
    rows = select_visible(_find_all(), by).filter(thread_id=thread_id)
    row = next(iter(rows[:1]), None)
    if row is None:
        raise NoSuchThread
    found = read_document(row)
    hidden = UNSHOWN if _may_operate(by, found[Run]) else UNSHOWN + OPERATORS
    return ArchivedThreadInfo(
        thread_id=row.thread_id,
        graph=row.graph,
        key=row.key,
        state=row.state,
        started_at=row.started_at,
        ended_at=row.ended_at,
        archived_at=row.archived_at,
        rows={
            model.__name__: [_render_row(each, hidden) for each in found[model]] for model in SHOWN
        },
    )


@retry_on_conflict
def restore_thread(thread_id: str, *, by: Any = None) -> None:
    """Move an archived thread back to its tables.

    References to rows that have been deleted become empty. Otherwise, the rows are unchanged. The
    thread is archived again only after the full retention period.

    Raises:
        ThreadNotFound: if the thread isn't archived, or ``by`` may not view it.
        NotAllowedError: if ``by`` has no permission to operate the thread's runs.
        ThreadExistsError: if another thread uses the same id or key.
    """
    try:
        with transaction.atomic(using=write_alias()):
            thread = unarchive(_find_all().filter(thread_id=thread_id))
            if thread is None:
                raise NoSuchThread
            # Check the permission with the restored rows, as for any other thread. Without the
            # permission, nothing is moved.
            seen = select_visible(Run.objects.using(write_alias()).filter(thread=thread), by)
            if by is not None and not seen.exists():
                raise NoSuchThread
            if not _may_operate(by, seen):
                raise NotAllowedError("You don't have permission to restore this thread.")
    except IntegrityError as error:
        raise ThreadExistsError(
            f"Thread {thread_id!r} can't be restored: its id or an idempotency key is in "
            "use by another thread."
        ) from error


def _find_all() -> QuerySet[ArchivedThread]:
    # Unordered, because PostgreSQL might otherwise scan all months in that order.
    return ArchivedThread.objects.using(write_alias()).order_by()


def _may_operate(by: Any, runs: Any) -> bool:
    return by is None or any(get_policy().may_operate(by, run) for run in runs)


def _render_row(row: models.Model, hidden: Sequence[str]) -> Mapping[str, Any]:
    columns = [field.attname for field in row._meta.concrete_fields if field.name not in hidden]
    shown = {name: getattr(row, name) for name in columns}
    if isinstance(row, AuditEntry):
        shown["detail"] = audit.get_shown_detail(row)
    if isinstance(row, Interrupt):
        shown["proposal"] = read_options(row).mask_proposal()
    options = shown.get("options") or {}
    if isinstance(row, Run) and "context" in options:
        context = registry.mask_context(row.graph, options["context"])
        shown["options"] = {**options, "context": context}
    found: Mapping[str, Any] = render_json(shown)
    return found
