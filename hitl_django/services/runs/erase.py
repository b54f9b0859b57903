"""forget: erases the payloads of a thread, and keeps the record of who did what."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F

from hitl_django import audit, leases
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NoSuchThread, NotAllowedError, RunStateError
from hitl_django.models import (
    Comment,
    Decision,
    Interrupt,
    ReviewLink,
    Run,
    RunEvent,
    SecondLook,
    Thread,
)
from hitl_django.models.review import ERASED_COLUMNS
from hitl_django.permissions import find_row, get_policy, select_visible

from .. import denied_log
from .archive import bring_back
from .state import find_thread


@retry_on_conflict
def forget(thread_id: str, *, by: Any = None, via: str = "code") -> None:
    """Erases the payloads of a thread whose runs have ended.

    State and history, events, questions, answers, reasons, comments, errors, metadata and subject
    go. Runs, decisions and the audit trail stay, with who, when and the digests of what was said,
    and the hash chain still holds. A run that failed counts as cancelled. An archived thread is
    restored, and goes back to the archive as it is then. A thread that never had a run is deleted.
    """
    refusal = denied_log.record_denial("forget", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread = _operated(thread_id, by)
        if not Run.objects.using(write_alias()).filter(thread=thread).exists():
            thread.delete(using=write_alias())  # nobody did anything with it
            return
        runs = Run.objects.using(write_alias()).filter(thread=thread)
        live = runs.filter(state__in=Run.UNFINISHED).first()
        if live is not None:
            raise RunStateError(
                f"Run {live.pk} is {live.state}; a thread can be forgotten when its runs have "
                "ended. Nothing was erased.",
                state=live.state,
                allowed=Run.ENDED,
            )
        DjangoSaver().delete_thread(thread_id)
        decisions = Decision.objects.filter(interrupt__thread=thread)
        decisions.update(value=None, patch=None, reason="", refusal="")
        Comment.objects.filter(interrupt__thread=thread).update(text="", mentions=None)
        SecondLook.objects.filter(interrupt__thread=thread).update(reason="")
        Interrupt.objects.filter(thread=thread).update(**ERASED_COLUMNS)
        RunEvent.objects.filter(run__in=runs).delete()
        ReviewLink.objects.filter(interrupt__thread=thread).update(email="")
        runs.update(
            input=None, options=None, error="", traceback="", first_event=F("last_event") + 1
        )
        # There is nothing left that it could go on from.
        runs.filter(state=Run.State.FAILED).update(state=Run.State.CANCELLED)
        Thread.objects.filter(pk=thread.pk).update(metadata={}, subject_type=None, subject_id="")
        audit.erase_reasons(thread)
        audit.append_alone(thread, "forget", by=by, via=via, subject=thread_id, detail={})


def _operated(thread_id: str, by: Any) -> Thread:
    """Returns the locked thread, if the user may operate its runs."""
    bring_back(thread_id=thread_id)
    runs = Run.objects.using(write_alias()).select_related("thread")
    runs = runs.filter(thread__thread_id=thread_id)
    if runs.exists():
        run = find_row(select_visible(runs, by), NoSuchThread)
    else:  # the policy is asked about a run as it would be
        thread = find_thread(thread_id, by)
        run = Run(thread=thread, graph=thread.graph)
    thread = leases.lock_thread(pk=run.thread_id)
    if by is not None and not get_policy().may_operate(by, run):
        raise NotAllowedError(
            "You may not erase what is stored of this thread.", thread_id=thread.thread_id
        )
    return thread
