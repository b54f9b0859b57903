"""Deadlines of open questions: which are overdue, and which are about to expire."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from hitl_django import events, signals
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.events import EventName
from hitl_django.models import Interrupt
from hitl_django.models.functions import Now
from hitl_django.models.review import LARGE_COLUMNS

from . import queue_filters

logger = logging.getLogger("hitl_django")

#: When one for which that failed is looked at again.
PUT_OFF = timedelta(minutes=5)


@retry_on_conflict
def mark_overdue() -> int:
    """Move what has become due to the front of the queue, a batch of it; returns how many."""
    using = write_alias()
    passed = Interrupt.objects.using(using).filter(
        queue_filters.PENDING, overdue=False, due_at__lte=Now()
    )
    if not passed.exists():  # mostly, and on SQLite a transaction would wait for other writers
        return 0
    with transaction.atomic(using=using):
        # Two at once take different rows, so that neither waits for the other.
        batch = passed.order_by("due_at").select_for_update(skip_locked=True)
        found = list(batch.only("graph", "group_label")[: hitl.SWEEP_BATCH])
        messages = WriteBatch(using)
        for row in found:
            events.publish_about(messages, EventName.INTERRUPT_OVERDUE, row)
        messages.run()
        pks = [row.pk for row in found]
        return Interrupt.objects.using(using).filter(pk__in=pks).update(overdue=True)


def warn_expiring() -> int:
    """Send interrupt_expiring for what is about to expire, a batch of it; returns how many."""
    soon = Interrupt.objects.using(write_alias()).filter(
        queue_filters.PENDING, queue_filters.ANSWERABLE, warn_at__lte=Now()
    )
    return act_on_due(soon, "warn_at", "warn_at", _warn)


def act_on_due(rows: QuerySet[Interrupt], at: str, retry: str, act: Callable[[UUID], bool]) -> int:
    """Does something with a batch of questions that its moment has come for, the earliest first.

    Each has a transaction of its own. One that fails is put off until what the column ``retry``
    says, or a batch of those would keep all that stand behind them from ever having their turn.
    Returns for how many it was done.
    """
    using, done = write_alias(), 0
    found = rows.order_by(at, "pk").values_list("pk", flat=True)[: hitl.SWEEP_BATCH]
    for pk in list(found):
        try:
            done += _act_on(act, pk, using)
        except Exception:
            fields = {"interrupt_id": str(pk)}
            logger.exception("interrupt %s: could not process its %s", pk, at, extra=fields)
            _put_off(pk, at, retry, using)
    return done


@retry_on_conflict
def _act_on(act: Callable[[UUID], bool], pk: UUID, using: str) -> bool:
    with transaction.atomic(using=using):
        return act(pk)


def _put_off(pk: UUID, at: str, retry: str, using: str) -> None:
    past = Interrupt.objects.using(using).filter(
        queue_filters.PENDING, pk=pk, **{f"{at}__lte": Now()}
    )
    try:
        past.update(**{retry: Now() + PUT_OFF})
    except Exception:
        fields = {"interrupt_id": str(pk)}
        logger.exception("interrupt %s could not be postponed", pk, extra=fields)


def _warn(pk: UUID) -> bool:
    using = write_alias()
    row = Interrupt.objects.using(using).filter(queue_filters.PENDING, pk=pk, warn_at__lte=Now())
    # Zero rows: another sweep warns of it, or it was decided. One warning is all there is,
    # whoever listens: a receiver that must not miss any reads the rows.
    if not row.update(warn_at=None):
        return False
    found = Interrupt.objects.using(using).select_related("thread").defer(*LARGE_COLUMNS).get(pk=pk)
    signals.send_on_commit(
        signals.interrupt_expiring,
        using=using,
        interrupt_id=str(pk),
        run_id=str(found.run_id),
        thread_id=found.thread.thread_id,
        graph=found.graph,
        expires_at=found.expires_at,
    )
    return True
