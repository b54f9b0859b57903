"""Rows of threads: found by their thread ids, or created."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django.db.bulk_insert import BulkInsert, insertable_columns, take_key
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Thread


class ThreadRow(NamedTuple):
    """What there is to know of a thread before a run of it."""

    pk: int
    epoch: int
    lease_owner: str
    is_leased: bool | None


_IS_LEASED = models.ExpressionWrapper(
    models.Q(lease_until__gt=Now()), output_field=models.BooleanField()
)
_FIND = PreparedSelect(
    lambda: (
        Thread.objects.order_by()
        .filter(thread_id=Parameter("thread_id", models.TextField()))
        .annotate(is_leased=_IS_LEASED)
        .values_list(*ThreadRow._fields)
    ),
    ThreadRow,
)

#: Begins a thread, and what the database makes of it.
_NEW = BulkInsert(Thread, insertable_columns(Thread), fresh=True)
_MADE = RowMapper(Thread, only=["id", "created_at"])

#: The same with a key that was taken for it, and the moment it was.
_OWN = BulkInsert(Thread, ["id", *insertable_columns(Thread), "created_at"], fresh=True)


def find_thread(using: str, thread_id: str) -> ThreadRow | None:
    """Returns what a thread's row says, if there is one."""
    rows = _FIND.run(using, thread_id=thread_id)
    return rows[0] if rows else None


def reserve_thread(using: str, thread: Thread) -> bool:
    """Gives a thread to come its key and its moment, so that ``add`` can write it with others.

    False where the database gives keys only to rows: it has to be made before the others.
    """
    taken = take_key(using, Thread)
    if taken is not None:
        thread.pk, thread.created_at = taken
    return taken is not None


def add_thread(thread: Thread, batch: WriteBatch) -> None:
    """Adds the row of a reserved thread, as it is by now, to what is written."""
    batch.insert(_OWN, [_OWN.values_of(thread)])


def create_thread(using: str, thread: Thread) -> None:
    """Makes a thread's row; IntegrityError where somebody else has made it."""
    _NEW.make(using, thread, _MADE)


def begin_thread(
    using: str,
    thread: Thread,
    add_rows: Callable[[int, WriteBatch], None],
    leased_for: timedelta | None = None,
) -> int:
    """Writes a thread's row, and the first of its rows that ``add_rows`` adds; returns its key.

    IntegrityError where somebody else has made it.
    """
    batch = WriteBatch(using)
    is_reserved = reserve_thread(using, thread)
    if leased_for is not None:
        # The clock of a database that reserves nothing is this machine's.
        thread.lease_until = leased_for + (thread.created_at if is_reserved else timezone.now())
    if is_reserved:
        add_thread(thread, batch)
        add_rows(thread.pk, batch)
        batch.commit()
    else:
        with transaction.atomic(using):
            create_thread(using, thread)
            add_rows(thread.pk, batch)
            batch.run()
    return thread.pk
