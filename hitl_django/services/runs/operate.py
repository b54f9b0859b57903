"""cancel and retry: what an operator does with a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from hitl_django import audit, leases, notifications
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import RunNotFound, RunStateError
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.permissions import find_row, get_policy, refuse_unless_may, select_visible
from hitl_django.task_queue import dispatcher

from .. import denied_log
from ..results import RunInfo
from .cancel import cancel_run
from .state import find_later_run

RETRYABLE = (Run.State.FAILED, Run.State.PARKED)


@retry_on_conflict
def cancel(
    run_id: UUID | str,
    *,
    by: Any = None,
    via: str = "code",
    reason: str = "",
    skip_permission_checks: bool = False,
) -> RunInfo:
    """Ends a run that hasn't succeeded, and withdraws what it asked.

    ``skip_permission_checks`` is for a view of the product's own that has made sure that the user
    may, as in ``start``.
    """
    refusal = denied_log.record_denial("cancel", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        run, thread = _operated(run_id, None if skip_permission_checks else by)
        before = str(run.state)
        batch = WriteBatch(write_alias())
        closed = cancel_run(batch, run, thread, questions=Interrupt.Status.CANCELLED)
        audit.append(
            batch,
            thread,
            "cancel",
            by=by,
            via=via,
            subject=str(run.pk),
            detail={"from": before, "reason": escape_unstorable(reason), "questions": closed},
        )
        batch.run()
        return RunInfo.from_row(run)


@retry_on_conflict
def retry(run_id: UUID | str, *, by: Any = None, via: str = "code") -> RunInfo:
    """Queues a failed or parked run again; it goes on from the last thing it stored."""
    refusal = denied_log.record_denial("retry", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        run, thread = _operated(run_id, by)
        before = str(run.state)
        _refuse_if_overtaken(run)
        # Zero rows: somebody else retried or cancelled it, or it never failed.
        queued = Run.objects.filter(pk=run.pk, state__in=RETRYABLE).update(
            state=Run.State.QUEUED,
            error="",
            traceback="",
            finished_at=None,
            queued_at=Now(),
            hinted_at=Now(),
        )
        if not queued:
            raise RunStateError(
                f"The run is {before}; only a failed or parked one can be retried.",
                state=before,
                allowed=RETRYABLE,
            )
        Thread.objects.filter(pk=thread.pk).update(attempts=0, ended_at=None)
        batch = WriteBatch(write_alias())
        notifications.append_event(batch, run, Run.State.QUEUED, reason="retried")
        detail = {"from": before}
        audit.append(batch, thread, "retry", by=by, via=via, subject=str(run.pk), detail=detail)
        dispatcher.enqueue(run.pk, batch)
        batch.run()
        run.refresh_from_db(write_alias(), fields=["state", "error"])
        return RunInfo.from_row(run)


def _operated(run_id: UUID | str, by: Any) -> tuple[Run, Thread]:
    """Returns the run and its locked thread, if the user may operate the run."""
    runs = Run.objects.using(write_alias())
    found = find_row(select_visible(runs, by).only("thread"), RunNotFound, pk=run_id)
    thread = leases.lock_thread(pk=found.thread_id)
    run = runs.select_related("thread").get(pk=found.pk)
    refuse_unless_may(by, get_policy().may_operate, run, "You may not cancel or retry this run.")
    return run, thread


def _refuse_if_overtaken(run: Run) -> None:
    """Refuses to revive a run whose thread has gone on without it."""
    if run.state not in RETRYABLE:
        return
    newer = find_later_run(run)
    if newer is not None:
        raise RunStateError(
            f"The thread has a newer run, {newer}, so this one can't go on.",
            state=str(run.state),
            allowed=RETRYABLE,
        )
