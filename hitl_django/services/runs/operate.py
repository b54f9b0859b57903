"""Cancelling and retrying runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from hitl_django import audit, leases, run_events
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import HitlError
from hitl_django.errors import RunNotFound, RunStateError
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.permissions import (
    check_ids,
    find_row,
    get_policy,
    refuse_unless_may,
    select_visible,
)
from hitl_django.task_queue import dispatcher

from .. import denied_log
from ..results import RunInfo
from .cancel import cancel_run
from .state import find_later_run
from .waiting import note_waiting

RETRYABLE = (Run.State.FAILED, Run.State.PARKED)
#: Maximum number of runs that one query reads.
PAGE = 500


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The result of retrying one of several runs.

    ``error`` is None if the run was queued.
    """

    run_id: UUID
    error: HitlError | None = None


@retry_on_conflict
def cancel(
    run_id: UUID | str,
    *,
    by: Any = None,
    via: str = "code",
    reason: str = "",
    skip_permission_checks: bool = False,
) -> RunInfo:
    """Cancel a run that hasn't succeeded, and withdraw its pending interrupts.

    The audit log contains ``reason``. Set ``skip_permission_checks`` only in views of your project
    that have checked the permission, as for ``start``.

    Raises:
        RunNotFound: if the user may not see the run.
        NotAllowedError: if the user may not operate the run.
        RunStateError: if the run has succeeded or is already cancelled.
    """
    refusal = denied_log.record_denial("cancel", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        run, thread = _lock_operated(run_id, None if skip_permission_checks else by)
        before = str(run.state)
        batch = WriteBatch(write_alias())
        closed = cancel_run(batch, run, thread, interrupts=Interrupt.Status.CANCELLED)
        audit.append(
            batch,
            thread,
            "cancel",
            by=by,
            via=via,
            subject=str(run.pk),
            detail={"from": before, "reason": escape_unstorable(reason), "interrupts": closed},
        )
        batch.run()
        return RunInfo.from_row(run)


@retry_on_conflict
def retry(
    run_id: UUID | str, *, events: Iterable[str] = (), by: Any = None, via: str = "code"
) -> RunInfo:
    """Queue a failed or parked run again. The run resumes from its last checkpoint.

    A run that failed before its first checkpoint waits for earlier runs of its thread again.
    ``events`` are further kinds of events that the run stores from now on.

    Raises:
        RunNotFound: if the user may not see the run.
        NotAllowedError: if the user may not operate the run.
        RunStateError: if the run is in another state, or its thread has a newer run.
    """
    refusal = denied_log.record_denial("retry", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        run, thread = _lock_operated(run_id, by)
        before = str(run.state)
        _raise_if_superseded(run)
        # A run without a checkpoint can only start from its input.
        after = Run.State.QUEUED if run.input is None else Run.State.WAITING
        # Zero rows: another user has retried or cancelled the run, or the run never failed.
        queued = Run.objects.filter(pk=run.pk, state__in=RETRYABLE).update(
            state=after,
            error="",
            traceback="",
            finished_at=None,
            queued_at=Now(),
            last_message_at=Now(),
        )
        if not queued:
            raise RunStateError(
                f"The run is {before}. Only failed or parked runs can be retried.",
                state=before,
                allowed=RETRYABLE,
            )
        if after == Run.State.WAITING:
            note_waiting(thread)
        else:
            Thread.objects.filter(pk=thread.pk).update(attempts=0, ended_at=None)
        run_events.store_also(run, events)
        batch = WriteBatch(write_alias())
        run_events.append_event(batch, run, after, reason="retried")
        detail = {"from": before}
        audit.append(batch, thread, "retry", by=by, via=via, subject=str(run.pk), detail=detail)
        if after == Run.State.WAITING:
            dispatcher.enqueue_message(run.pk, batch)
        else:
            dispatcher.enqueue(run.pk, batch)
        batch.run()
        run.refresh_from_db(write_alias(), fields=["state", "error"])
        return RunInfo.from_row(run)


def retry_all(
    run_ids: Iterable[UUID], *, by: Any = None, via: str = "code"
) -> Iterator[RetryResult]:
    """Retry several runs, and yield the result of each.

    Each run is retried in its own transaction. An error of one run doesn't stop the iteration.
    """
    for run_id in check_ids("run_ids", run_ids):
        try:
            retry(run_id, by=by, via=via)
        except HitlError as error:
            yield RetryResult(run_id, error)
        else:
            yield RetryResult(run_id)


def list_retryable(state: str, *, graph: str | None = None, by: Any = None) -> Iterator[UUID]:
    """Yield the ids of the runs in ``state`` that can be retried, oldest first.

    Runs are omitted if their thread has a newer run. The result is an argument for ``retry_all``.
    Runs may be retried during the iteration, because the ids are read in pages.

    Raises:
        ValueError: if ``state`` is neither "failed" nor "parked".
    """
    if state not in RETRYABLE:
        raise ValueError(f"state must be one of {', '.join(RETRYABLE)}, not {state!r}.")
    rows = select_visible(Run.objects.using(write_alias()), by).filter(state=state)
    rows = rows.filter(~is_superseded()).order_by("pk")
    if graph is not None:
        rows = rows.filter(graph=graph)
    page = list(rows.values_list("pk", flat=True)[:PAGE])
    while page:
        yield from page
        page = list(rows.filter(pk__gt=page[-1]).values_list("pk", flat=True)[:PAGE])


def is_superseded() -> Exists:
    """Return a condition on runs: the same thread has a newer run."""
    is_newer = Q(number__gt=OuterRef("number"))
    is_newer |= Q(number=OuterRef("number"), pk__gt=OuterRef("pk"))
    begun = Run.objects.filter(thread=OuterRef("thread"), input__isnull=True)
    return Exists(begun.filter(is_newer))


def _lock_operated(run_id: UUID | str, by: Any) -> tuple[Run, Thread]:
    """Lock the thread of a run, and return the run and the thread.

    Raises:
        RunNotFound: if the user may not see the run.
        NotAllowedError: if the user may not operate the run.
    """
    runs = Run.objects.using(write_alias())
    found = find_row(select_visible(runs, by).only("thread"), RunNotFound, pk=run_id)
    thread = leases.lock_thread(pk=found.thread_id)
    run = runs.select_related("thread").get(pk=found.pk)
    refuse_unless_may(
        by, get_policy().may_operate, run, "You don't have permission to cancel or retry this run."
    )
    return run, thread


def _raise_if_superseded(run: Run) -> None:
    if run.state not in RETRYABLE:
        return
    newer = find_later_run(run)
    if newer is not None:
        raise RunStateError(
            f"The thread has a newer run, {newer}; this one can't be resumed.",
            state=str(run.state),
            allowed=RETRYABLE,
        )
