"""Cancellation of a run, shared by several services."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from hitl_django import events, run_events, run_leases, signals
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import RunStateError
from hitl_django.events import EventName
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.models.review import get_closed_columns

from .waiting import note_waiting

CANCELLABLE = tuple(
    state for state, following in Run.TRANSITIONS.items() if Run.State.CANCELLED in following
)


def cancel_run(batch: WriteBatch, run: Run, thread: Thread, *, interrupts: str) -> list[str]:
    """Cancel the run and close its pending interrupts with the status ``interrupts``.

    Returns the ids of these interrupts. The caller has locked the thread. The run's event and the
    rows that event subscribers write are added to ``batch``, which the caller executes.

    Raises:
        RunStateError: if the run has ended.
    """
    using = batch.using
    # Zero rows: the run ended while this transaction waited for the lock.
    cancelled = (
        Run.objects.using(using)
        .filter(pk=run.pk, state__in=CANCELLABLE)
        .update(state=Run.State.CANCELLED, finished_at=Now(), resumes_at=None)
    )
    if not cancelled:
        run.refresh_from_db(using, fields=["state"])
        raise RunStateError(
            f"The run is already {run.state}.",
            state=run.state,
            allowed=CANCELLABLE,
        )
    if run.state in Run.ACTIVE:  # A thread has at most one active run.
        _release_thread(batch, run, thread)
    elif run.state == Run.State.WAITING:
        note_waiting(thread)
    rows = Interrupt.objects.using(using)
    waiting = rows.filter(run=run, status=Interrupt.Status.PENDING)
    run_events.append_event(batch, run, Run.State.CANCELLED)
    closed = [str(pk) for pk in waiting.order_by("pk").values_list("pk", flat=True)]
    waiting.update(status=interrupts, **get_closed_columns())
    ids = {"run_id": run.pk, "thread_id": thread.thread_id}
    events.publish(batch, EventName.RUN_CANCELLED, run.graph, **ids)
    run.refresh_from_db(using, fields=["state", "finished_at"])
    signals.send_on_commit(
        signals.run_cancelled,
        using=using,
        run_id=str(run.pk),
        thread_id=thread.thread_id,
        graph=run.graph,
        state=run.state,
    )
    return closed


def _release_thread(batch: WriteBatch, run: Run, thread: Thread) -> None:
    # The attempts belong to this run. The next run of the thread starts with zero attempts.
    freed: dict[str, Any] = {"attempts": 0, "ended_at": Now()}
    if run.state == Run.State.RUNNING:
        # The worker isn't stopped. With a new epoch, its next commit matches no row, and the worker
        # stops.
        freed |= {"epoch": F("epoch") + 1, "lease_owner": "", "lease_until": None}
    Thread.objects.using(batch.using).filter(pk=thread.pk).update(**freed)
    if thread.has_waiting:
        run_leases.enqueue_next(batch, thread.pk)
