"""Conditions and times at which a run resumes after a decision."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from hitl_django import leases, run_events
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.task_queue import dispatcher

from .. import queries

logger = logging.getLogger("hitl_django")


def resumes_run(interrupt: Interrupt) -> bool:
    """Return whether a decision on this interrupt resumes its run.

    If the graph's policy waits for all interrupts, only the decision on the last pending interrupt
    resumes the run. The thread is locked, so exactly one of several concurrent decisions is the
    last.
    """
    if resumes_on_each(interrupt.graph):
        return True
    waiting = Interrupt.objects.using(write_alias()).filter(
        run=interrupt.run_id, status=Interrupt.Status.PENDING
    )
    return not waiting.exclude(pk=interrupt.pk).exists()


def resumes_on_each(graph: str) -> bool:
    """Return whether runs of a graph resume after each decision, not only after the last."""
    return registry.get_review_policy(graph).resume_on == "each"


def waits_for_undo(run: Run, *, by_person: bool) -> bool:
    """Return whether the run must wait until the decision can no longer be undone.

    Decisions without a user (``by_person`` is false) can't be undone.
    """
    if run.state != Run.State.INTERRUPTED:
        return False  # A worker may read the response at any time.
    return run.resumes_at is not None or (by_person and hitl.UNDO_SECONDS > 0)


def resumption_time(run: Run, thread: Thread) -> datetime:
    """Return the time at which the run resumes after a decision.

    A later decision may postpone this time.
    """
    wanted = thread.now + timedelta(seconds=hitl.UNDO_SECONDS)
    return wanted if run.resumes_at is None else max(run.resumes_at, wanted)


def queue_run(batch: WriteBatch, run: Run, reason: str) -> None:
    """Add to the batch the update that resumes a run, and the message to a worker.

    The run's event contains ``reason``. The caller has locked the thread.
    """
    last_event = run_events.append_queued(batch, run, reason)
    batch.guard(queries.RESUME, {"run": run.pk, "last_event": last_event})
    dispatcher.enqueue(run.pk, batch)


def select_due() -> QuerySet[Run]:
    """Return the runs whose time limit for an undo has passed."""
    waiting = Run.objects.using(write_alias()).filter(state=Run.State.INTERRUPTED)
    return waiting.filter(resumes_at__lte=Now())


def resume_due() -> int:
    """Queue a batch of runs whose time limit for an undo has passed, and return their number."""
    done = 0
    found = select_due().order_by("resumes_at").values_list("pk", "thread_id")[: hitl.SWEEP_BATCH]
    for run_id, thread in list(found):
        try:
            done += _resume(run_id, thread)
        except Exception:
            # The next sweep tries this run again. Continue with the others.
            logger.exception("run %s could not be queued", run_id, extra={"run_id": str(run_id)})
    return done


@retry_on_conflict
def _resume(run_id: UUID, thread: int) -> bool:
    using = write_alias()
    with transaction.atomic(using=using):
        leases.lock_thread(pk=thread)
        # Zero rows: the decision was undone, the run was cancelled, or another process has queued
        # it.
        run = select_due().filter(pk=run_id).first()
        if run is None:
            return False
        batch = WriteBatch(using)
        queue_run(batch, run, "answered")
        return bool(batch.run())
