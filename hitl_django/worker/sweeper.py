"""The sweep, a periodic job that requeues lost runs and processes due times.

A queue can lose a message, and a worker can die during a run. In both cases, the run's row shows
the problem. The run is QUEUED for longer than the delivery of a message takes, or the run is
RUNNING with an expired lease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F, Min, Q, QuerySet

from hitl_django import run_leases, services
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.extensions import list_extensions
from hitl_django.graph_registry import compatibility
from hitl_django.models import Run
from hitl_django.models.functions import Now
from hitl_django.services import idempotency
from hitl_django.services.reviews.expire import select_expired
from hitl_django.services.reviews.resumption import select_due
from hitl_django.task_queue import dispatcher, heartbeat

from . import retention

logger = logging.getLogger("hitl_django")


def sweep(*, after_restart: bool = False) -> list[UUID]:
    """Enqueue overdue runs and the runs of ended workers, and return the ids of these runs.

    A run is overdue if its message is probably lost. A sweep enqueues at most SWEEP_BATCH overdue
    runs. With ``after_restart``, all queued runs count as overdue, because messages that the ended
    processes have received may be lost.

    Before the runs are enqueued, interrupts expire, warnings are sent, overdue interrupts are
    marked, and runs resume after the time limit for an undo. Afterwards, old idempotency records
    and unused graph structures are deleted, RETENTION_DAYS is applied, optional apps run their
    steps, and EVENT_RETENTION_DAYS is applied. Each step processes one batch. Several sweeps may
    run simultaneously.
    """
    _run_steps("interrupts", services.expire_due, services.warn_expiring, services.mark_overdue)
    _run_steps("undo", services.resume_due)
    run_ids: list[UUID] = []
    _run_steps("leases", lambda: run_ids.extend(run_leases.release_ended_workers()))
    run_ids += _enqueue_overdue(timedelta() if after_restart else _find_message_limit())
    _run_steps("workers", _request_report)
    _run_steps("graph structures", compatibility.remove_unused_structures)
    _run_steps("keys", idempotency.remove_old)
    _run_steps("retention", _delete_ended)
    # This runs before events are deleted, because apps archive threads with their events.
    for extension in list_extensions():
        _run_steps(extension.name, *extension.sweep)
    if hitl.EVENT_RETENTION_DAYS is not None:
        days = hitl.EVENT_RETENTION_DAYS
        _run_steps("events", partial(retention.delete_events, days, hitl.SWEEP_BATCH))
    return run_ids


@retry_on_conflict
def _request_report() -> None:
    if not dispatcher.get_dispatcher().reports_when_idle() and heartbeat.is_report_due():
        with transaction.atomic(using=write_alias()):
            batch = WriteBatch(write_alias())
            dispatcher.enqueue_report(batch)
            batch.run()


def _run_steps(what: str, *steps: Callable[[], object]) -> None:
    for step in steps:
        try:
            step()
        except Exception:
            # An error in another step must not prevent runs from being enqueued.
            logger.exception("%s could not be processed", what)


def _delete_ended() -> None:
    periods = hitl.RETENTION_DAYS
    retention.apply_retention_periods(
        "deleted", retention.delete_ended, periods, "purge --days {days:g}"
    )


def _find_message_limit() -> timedelta:
    """Return the time after which the message of a run counts as lost."""
    return timedelta(seconds=hitl.SWEEP_SECONDS)


@retry_on_conflict
def _enqueue_overdue(limit: timedelta) -> list[UUID]:
    using = write_alias()
    run_ids: list[UUID] = []
    with transaction.atomic(using=using):
        for overdue in (_overdue(limit), _overdue_to_begin(limit)):
            # Concurrent sweeps take different runs, so no run is enqueued twice and no sweep waits.
            # SQLite has one writer at a time, so the second sweep reads the changes of the first.
            free = overdue.select_for_update(skip_locked=True, no_key=True, of=("self",))
            run_ids += free.values_list("pk", flat=True)[: hitl.SWEEP_BATCH]
        if not run_ids:
            return []
        # The column is updated before the runs are enqueued, so that the next sweep takes other
        # runs first. Otherwise, the queue would fill with repeated messages if there are more runs
        # than workers can process.
        Run.objects.using(using).filter(pk__in=run_ids).update(last_message_at=Now())
        batch = WriteBatch(using)
        for run_id in run_ids:
            dispatcher.enqueue_message(run_id, batch)
        batch.run()
    logger.info("sweep: runs requeued: %s", len(run_ids))
    return run_ids


def is_any_due(run_ids: Sequence[UUID]) -> bool:
    """Return whether one of the runs is still due, i.e. no worker has started it."""
    due = Run.objects.using(write_alias()).filter(pk__in=run_ids)
    return due.filter(_match_without_worker()).exists()


def find_missed_since() -> datetime | None:
    """Return the earliest due time that sweeps have missed, or None if they have missed none.

    The due times are those of the sweep's first steps (runs to enqueue or resume, interrupts to
    expire) and the times reported by optional apps. If a sweep has enqueued runs recently, return
    None, because other overdue runs may have to wait for the next batch.
    """
    late = Now() - heartbeat.get_heartbeat_limit()
    runs = Run.objects.using(write_alias()).filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))
    if runs.filter(last_message_at__gte=late, last_message_at__gt=F("queued_at")).exists():
        return None
    # A run whose lease expires now is left to the next sweep, even if the run was enqueued long
    # ago.
    is_without_worker = Q(state=Run.State.QUEUED) | Q(thread__lease_until__lt=late)
    interrupts = select_expired().filter(expires_at__lt=late)
    answered = select_due().filter(resumes_at__lt=late)
    oldest = [
        answered.aggregate(at=Min("resumes_at"))["at"],
        runs.filter(is_without_worker, last_message_at__lt=late).aggregate(
            at=Min("last_message_at")
        )["at"],
        interrupts.aggregate(at=Min("expires_at"))["at"],
    ]
    oldest += [find(late) for each in list_extensions() for find in each.overdue]
    return min((at for at in oldest if at is not None), default=None)


def _overdue(limit: timedelta) -> QuerySet[Run]:
    """Return overdue runs that no worker executes, in the order in which they were enqueued."""
    enqueued_before = Now() - limit
    # The states and the time come first, because the index covers these columns.
    due = Run.objects.using(write_alias()).filter(
        state__in=(Run.State.QUEUED, Run.State.RUNNING), last_message_at__lt=enqueued_before
    )
    return due.filter(_match_without_worker()).order_by("last_message_at")


def _overdue_to_begin(limit: timedelta) -> QuerySet[Run]:
    """Return waiting runs that can start, because no earlier run of their thread is active.

    A message for each of these runs was enqueued longer than ``limit`` ago, and was probably lost.
    """
    enqueued_before = Now() - limit
    waiting = Run.objects.using(write_alias()).filter(
        thread__has_waiting=True, thread__ended_at__isnull=False, state=Run.State.WAITING
    )
    return waiting.filter(last_message_at__lt=enqueued_before).order_by("last_message_at")


def _match_without_worker() -> Q:
    led_by_nobody = Q(thread__lease_until__isnull=True) | Q(thread__lease_until__lt=Now())
    return Q(state=Run.State.QUEUED) | Q(state=Run.State.RUNNING) & led_by_nobody
