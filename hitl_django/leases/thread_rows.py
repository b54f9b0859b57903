"""Rows of threads: lookup by thread id, creation and locking."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import models

from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.clock import read_clock
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import NoSuchThread
from hitl_django.models import Thread
from hitl_django.models.functions import Now

from . import queries


class ThreadRow(NamedTuple):
    """The columns of a thread that a direct graph call reads before it starts."""

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

#: Inserts a thread.
_NEW = BulkInsert(Thread, insertable_columns(Thread), fresh=True)


def find_thread(using: str, thread_id: str) -> ThreadRow | None:
    rows = _FIND.run(using, thread_id=thread_id)
    return rows[0] if rows else None


def add_thread(thread: Thread, batch: WriteBatch) -> None:
    """Add a thread's row to the batch, before all rows that refer to the thread.

    Committing the batch raises IntegrityError if another process has created the thread.
    """
    batch.insert_first(_NEW, thread)


def begin_thread(
    using: str,
    thread: Thread,
    add_rows: Callable[[int, WriteBatch], None],
    leased_for: timedelta | None = None,
) -> int:
    """Write a new thread's row together with other rows, and return the thread's primary key.

    ``add_rows`` is called with the primary key and a batch, to which it adds the other rows. With
    ``leased_for``, the thread is leased for this time.

    Raises:
        IntegrityError: another process has created the thread.
    """
    batch = WriteBatch(using)
    if leased_for is not None:
        thread.lease_until = read_clock(using) + leased_for
    add_thread(thread, batch)
    add_rows(thread.pk, batch)
    batch.commit()
    return thread.pk


def lock_thread(*, pk: int | None = None, interrupt: UUID | None = None) -> Thread:
    """Lock the row of a thread until the transaction ends, and return the thread.

    The attribute ``now`` of the thread contains the database's time. The thread is found by its
    primary key ``pk``, or by the id of one of its interrupts (``interrupt``). Every transaction
    that changes several tables of a thread takes this lock first, to avoid deadlocks. On SQLite,
    the transaction itself is the lock.

    Raises:
        NoSuchThread: the thread doesn't exist.
    """
    using = write_alias()
    if pk is not None:
        rows = queries.LOCK.run(using, thread=pk)
    else:
        rows = queries.LOCK_OF.run(using, interrupt=interrupt)
    if not rows:
        raise NoSuchThread
    return queries.THREAD.read(using, rows[0])
