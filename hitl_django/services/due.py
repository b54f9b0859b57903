"""What the clock says of questions that still wait: overdue, and about to expire."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from hitl_django import dispatch, signals
from hitl_django.conf import hitl
from hitl_django.models import Interrupt

from . import queue


def mark_overdue() -> int:
    """Moves what has become due to the front of the queue, a batch of it; returns how many."""
    using = dispatch.alias()
    passed = Interrupt.objects.using(using).filter(queue.PENDING, overdue=False, due_at__lte=Now())
    if not passed.exists():  # mostly, and on SQLite a transaction would wait for other writers
        return 0
    with transaction.atomic(using=using):
        # Two at once take different rows, so that neither waits for the other.
        batch = passed.order_by("due_at").select_for_update(skip_locked=True)
        found = list(batch.values_list("pk", flat=True)[: hitl.SWEEP_BATCH])
        return Interrupt.objects.using(using).filter(pk__in=found).update(overdue=True)


def warn_expiring() -> int:
    """Sends interrupt_expiring for what is about to expire, a batch of it; returns how many."""
    using = dispatch.alias()
    soon = Interrupt.objects.using(using).filter(
        queue.PENDING, queue.ANSWERABLE, warn_at__lte=Now()
    )
    found = soon.order_by("warn_at").values_list("pk", flat=True)[: hitl.SWEEP_BATCH]
    return sum(_warn(pk, using) for pk in list(found))


def _warn(pk: UUID, using: str) -> bool:
    with transaction.atomic(using=using):
        row = Interrupt.objects.using(using).filter(queue.PENDING, pk=pk, warn_at__lte=Now())
        # Zero rows: another sweep warns of it, or it was decided. One warning is all there is,
        # whoever listens: a receiver that must not miss any reads the rows.
        if not row.update(warn_at=None):
            return False
        told = Interrupt.objects.using(using).select_related("thread").defer("payload").get(pk=pk)
        signals.send_on_commit(
            signals.interrupt_expiring,
            using=using,
            interrupt_id=str(pk),
            run_id=str(told.run_id),
            thread_id=told.thread.thread_id,
            graph=told.graph,
            expires_at=told.expires_at,
        )
        return True
