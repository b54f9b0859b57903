"""Due times and expiry warnings of pending interrupts."""

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
from hitl_django.db.prepared_query import PreparedSelect
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.events import EventName
from hitl_django.models import Interrupt
from hitl_django.models.functions import Now
from hitl_django.models.review import LARGE_COLUMNS

from . import queue_filters

logger = logging.getLogger("hitl_django")

#: Time until an interrupt is processed again after an error.
RETRY_DELAY = timedelta(minutes=5)


def _list_passed() -> QuerySet[Interrupt]:
    return Interrupt.objects.filter(queue_filters.PENDING, overdue=False, due_at__lte=Now())


#: Finds an interrupt that has to be marked as overdue.
_ANY_PASSED = PreparedSelect(lambda: _list_passed().order_by().values_list("pk")[:1])


@retry_on_conflict
def mark_overdue() -> int:
    """Mark a batch of due interrupts as overdue, and return their number."""
    using = write_alias()
    # Usually nothing is due. On SQLite, a transaction would wait for other writers.
    if not _ANY_PASSED.run(using):
        return 0
    with transaction.atomic(using=using):
        # Concurrent callers lock different rows, so they don't wait for each other.
        passed = _list_passed().using(using).order_by("due_at")
        batch = passed.select_for_update(skip_locked=True)
        found = list(batch.only("graph", "group_label")[: hitl.SWEEP_BATCH])
        messages = WriteBatch(using)
        for row in found:
            events.publish_about(messages, EventName.INTERRUPT_OVERDUE, row)
        messages.run()
        pks = [row.pk for row in found]
        return Interrupt.objects.using(using).filter(pk__in=pks).update(overdue=True)


def warn_expiring() -> int:
    """Send the signal interrupt_expiring for a batch of interrupts that expire soon.

    Returns the number of interrupts.
    """
    soon = Interrupt.objects.using(write_alias()).filter(
        queue_filters.PENDING, queue_filters.ANSWERABLE, warn_at__lte=Now()
    )
    return act_on_due(soon, "warn_at", "warn_at", _warn)


def act_on_due(rows: QuerySet[Interrupt], at: str, retry: str, act: Callable[[UUID], bool]) -> int:
    """Call ``act`` for a batch of interrupts whose time in the column ``at`` has passed.

    The earliest times come first. Each call has its own transaction. After an error, the column
    ``retry`` is set to a later time, so that failing interrupts don't block the others. Returns the
    number of calls that returned True.
    """
    using, done = write_alias(), 0
    found = rows.order_by(at, "pk").values_list("pk", flat=True)[: hitl.SWEEP_BATCH]
    for pk in list(found):
        try:
            done += _act_on(act, pk, using)
        except Exception:
            fields = {"interrupt_id": str(pk)}
            logger.exception("interrupt %s: could not process its %s", pk, at, extra=fields)
            _postpone(pk, at, retry, using)
    return done


@retry_on_conflict
def _act_on(act: Callable[[UUID], bool], pk: UUID, using: str) -> bool:
    with transaction.atomic(using=using):
        return act(pk)


def _postpone(pk: UUID, at: str, retry: str, using: str) -> None:
    past = Interrupt.objects.using(using).filter(
        queue_filters.PENDING, pk=pk, **{f"{at}__lte": Now()}
    )
    try:
        past.update(**{retry: Now() + RETRY_DELAY})
    except Exception:
        fields = {"interrupt_id": str(pk)}
        logger.exception("interrupt %s could not be postponed", pk, extra=fields)


def _warn(pk: UUID) -> bool:
    using = write_alias()
    row = Interrupt.objects.using(using).filter(queue_filters.PENDING, pk=pk, warn_at__lte=Now())
    # Zero rows: another sweep has sent the signal, or the interrupt was decided. The signal is sent
    # at most once. Receivers that must not miss a warning can read the rows instead.
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
