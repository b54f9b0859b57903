"""Sweep steps of notifications: due reminders and the daily digest.

The progress of each sweep step is stored in a row of its own. The transaction that stores the
deliveries of a step also changes the step's row with a conditional UPDATE, so only one of several
concurrent sweeps sends notifications. A sweep without anything to send writes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from hitl_django.conf import hitl
from hitl_django.contrib.webhooks import outbox
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.extensions import Event
from hitl_django.forms.local_time import to_local
from hitl_django.models import Interrupt
from hitl_django.models.functions import Now

from . import topics
from .models import NotificationCursor
from .topics import DUE_SOON

DUE, DIGEST = "due", "digest"


@retry_on_conflict
def publish_due() -> int:
    """Store the reminders for a batch of interrupts that are due within DUE_REMINDER_SECONDS.

    Return the number of interrupts. An interrupt gets no reminder if less than
    DUE_REMINDER_SECONDS lie between its creation and its due time, because its reviewers were
    notified of the creation.
    """
    lead = timedelta(seconds=hitl.DUE_REMINDER_SECONDS)
    until, now = _read_mark(DUE)
    pending = Interrupt.objects.using(write_alias()).filter(
        status=Interrupt.Status.PENDING, overdue=False, due_at__gte=F("created_at") + lead
    )
    passed = pending.filter(due_at__gt=max(until, now), due_at__lte=now + lead)
    found = list(passed.order_by("due_at").only("graph", "group_label", "due_at")[: _most()])
    if not found:
        return 0
    last = found[-1].due_at
    assert last is not None
    # Include all interrupts that are due at the same time as the last one.
    if len(found) == _most():
        known = [row.pk for row in found]
        found += pending.filter(due_at=last).exclude(pk__in=known).only("graph", "group_label")
    with transaction.atomic(using=write_alias()):
        if _move_mark(DUE, until, last):
            batch = WriteBatch(write_alias())
            for row in found:
                about = {"graph": row.graph, "interrupt_id": row.pk}
                event = Event(DUE_SOON, row.graph, about, row.group_label)
                outbox.write_messages(batch, event)
            batch.run()
            return len(found)
    return 0


@retry_on_conflict
def publish_digest() -> bool:
    """If the daily digest is due, store its deliveries and return True, otherwise return False."""
    until, now = _read_mark(DIGEST)
    hour = _find_hour(now)
    if not until < hour <= now:
        return False
    with transaction.atomic(using=write_alias()):
        if not _move_mark(DIGEST, until, now):
            return False
        batch = WriteBatch(write_alias())
        data = {"graph": "", "after": until, "until": now}
        outbox.write_messages(batch, Event(topics.DIGEST, "", data))
        batch.run()
    return True


def _read_mark(name: str) -> tuple[datetime, datetime]:
    """Return the time up to which a sweep step has sent notifications, and the current time.

    For a new sweep step, both times are the current time.
    """
    rows = NotificationCursor.objects.using(write_alias()).annotate(now=Now())
    found = rows.filter(name=name).values_list("until", "now").first()
    if found is None:
        # Don't use the database's clock, because SQLite formats its times differently from query
        # parameters.
        first = {"until": timezone.now()}
        NotificationCursor.objects.using(write_alias()).get_or_create(name=name, defaults=first)
        found = rows.filter(name=name).values_list("until", "now").get()
    return found


def _move_mark(name: str, seen: datetime, until: datetime) -> int:
    # Zero rows: another sweep has changed the progress first.
    return (
        NotificationCursor.objects.using(write_alias())
        .filter(name=name, until=seen)
        .update(until=until)
    )


def _find_hour(now: datetime) -> datetime:
    """Return the time at which today's digest is due."""
    return to_local(now).replace(hour=int(hitl.DIGEST_HOUR), minute=0, second=0, microsecond=0)


def _most() -> int:
    return int(hitl.SWEEP_BATCH)
