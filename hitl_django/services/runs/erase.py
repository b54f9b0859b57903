"""Erasure of a thread's contents.

The audit log is not erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F

from hitl_django import audit, leases
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NoSuchThread, NotAllowedError, RunStateError
from hitl_django.extensions import iterate_tables
from hitl_django.models import (
    Comment,
    Decision,
    Interrupt,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.models.review import ERASED_COLUMNS
from hitl_django.permissions import find_row, get_policy, select_visible

from .. import denied_log
from .archives import restore_archived
from .state import find_thread
from .threads import list_copies


@retry_on_conflict
def erase_thread(thread_id: str, *, by: Any = None, via: str = "code") -> list[str]:
    """Erase the contents of a thread and of its copies, and return the ids of these threads.

    State, history, events, payloads, responses, reasons, comments, errors, metadata and the
    reference to the related object are erased. Runs, decisions and audit log entries remain, with
    their users, times and digests. The hash chain remains valid. A failed run becomes cancelled. An
    archived thread is restored, and archived again without its contents. A thread without runs is
    deleted.

    Copies are threads that ``copy_thread`` created from this thread or its copies. If this thread
    is itself a copy, the original is not erased. Either all threads are erased, or none.

    Raises:
        RunStateError: if a run of the thread or of a copy is active. The error names the copies.
        NotAllowedError: if the user may not operate the thread or one of its copies.
    """
    refusal = denied_log.record_denial("erase", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread = _lock_operated(thread_id, by)
        copies = [copy for name in list_copies(thread) if (copy := _lock_operated_copy(name, by))]
        _refuse_active([thread, *copies])
        for each in (thread, *copies):
            _erase_thread(each, by, via, {} if each is thread else {"from": thread_id})
        return [each.thread_id for each in (thread, *copies)]


def _refuse_active(threads: Sequence[Thread]) -> None:
    rows = Run.objects.using(write_alias()).select_related("thread")
    active = list(rows.filter(thread__in=threads, state__in=Run.NOT_ENDED).order_by("pk"))
    if not active:
        return
    named = "; ".join(
        f"Run {run.pk} is {run.state}"
        + ("" if run.thread_id == threads[0].pk else f" in the copy {run.thread.thread_id!r}")
        for run in active
    )
    raise RunStateError(
        f"{named}. A thread can be erased when its runs and those of its copies have ended. "
        "Nothing was erased.",
        state=active[0].state,
        allowed=Run.ENDED,
    )


def _erase_thread(thread: Thread, by: Any, via: str, detail: dict[str, Any]) -> None:
    runs = Run.objects.using(write_alias()).filter(thread=thread)
    if not runs.exists():
        thread.delete(using=write_alias())  # The thread never had a run.
        return
    DjangoSaver().delete_thread(thread.thread_id)
    decisions = Decision.objects.filter(interrupt__thread=thread)
    decisions.update(value=None, patch=None, reason="", refusal="")
    Comment.objects.filter(interrupt__thread=thread).update(text="", mentions=None)
    Interrupt.objects.filter(thread=thread).update(**ERASED_COLUMNS)
    RunEvent.objects.filter(run__in=runs).delete()
    for table in iterate_tables():
        if table.thread and table.erased:
            rows = table.model._base_manager.using(write_alias())
            rows.filter(**{table.thread: thread.pk}).update(**table.erased)
    runs.update(input=None, options=None, error="", traceback="", first_event=F("last_event") + 1)
    # Without its state, the run can't be retried.
    runs.filter(state=Run.State.FAILED).update(state=Run.State.CANCELLED)
    Thread.objects.filter(pk=thread.pk).update(metadata={}, subject_type=None, subject_id="")
    audit.erase_reasons(thread)
    audit.append_alone(thread, "erase", by=by, via=via, subject=thread.thread_id, detail=detail)


def _lock_operated_copy(thread_id: str, by: Any) -> Thread | None:
    """Lock a copy of a thread, and return the copy, or None if it was deleted.

    Raises:
        NotAllowedError: if the user may not see the copy or may not operate its runs.
    """
    try:
        return _lock_operated(thread_id, by)
    except NoSuchThread:
        if not Thread.objects.using(write_alias()).filter(thread_id=thread_id).exists():
            return None
        raise NotAllowedError(
            "You may not see one of the copies of this thread, and so not erase it. Nothing was "
            "erased."
        ) from None


def _lock_operated(thread_id: str, by: Any) -> Thread:
    """Lock a thread, and return the thread.

    Raises:
        NoSuchThread: if the user may not see the thread.
        NotAllowedError: if the user may not operate the runs of the thread.
    """
    restore_archived(thread_id=thread_id)
    runs = Run.objects.using(write_alias()).select_related("thread")
    runs = runs.filter(thread__thread_id=thread_id)
    if runs.exists():
        run = find_row(select_visible(runs, by), NoSuchThread)
    else:  # The policy needs a run to check.
        thread = find_thread(thread_id, by)
        run = Run(thread=thread, graph=thread.graph)
    thread = leases.lock_thread(pk=run.thread_id)
    if by is not None and not get_policy().may_operate(by, run):
        raise NotAllowedError(
            "You don't have permission to erase this thread.", thread_id=thread.thread_id
        )
    return thread
