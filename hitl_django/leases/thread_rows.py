"""Rows of threads: found by their thread ids, created, or locked."""

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

#: Begins a thread.
_NEW = BulkInsert(Thread, insertable_columns(Thread), fresh=True)


def find_thread(using: str, thread_id: str) -> ThreadRow | None:
    """Return what a thread's row says, if there is one."""
    rows = _FIND.run(using, thread_id=thread_id)
    return rows[0] if rows else None


def add_thread(thread: Thread, batch: WriteBatch) -> None:
    """Add the row of a thread as it is when the batch is written, before rows that belong to it.

    IntegrityError, when that is, where somebody else has made it.
    """
    batch.insert_first(_NEW, thread)


def begin_thread(
    using: str,
    thread: Thread,
    add_rows: Callable[[int, WriteBatch], None],
    leased_for: timedelta | None = None,
) -> int:
    """Write a thread's row, and the first of its rows that ``add_rows`` adds; return its key.

    IntegrityError where somebody else has made it.
    """
    batch = WriteBatch(using)
    if leased_for is not None:
        thread.lease_until = read_clock(using) + leased_for
    add_thread(thread, batch)
    add_rows(thread.pk, batch)
    batch.commit()
    return thread.pk


def lock_thread(*, pk: int | None = None, interrupt: UUID | None = None) -> Thread:
    """Return the thread's row, locked until the transaction ends, with the database's ``now``.

    It is found by its key, or by one of its interrupts. Every transaction that touches more than
    one table of a thread takes this lock first, so that no two of them can wait for each other. On
    SQLite the lock is the transaction itself.

    Raises:
        NoSuchThread: there is none.
    """
    using = write_alias()
    if pk is not None:
        rows = queries.LOCK.run(using, thread=pk)
    else:
        rows = queries.LOCK_OF.run(using, interrupt=interrupt)
    if not rows:
        raise NoSuchThread
    return queries.THREAD.read(using, rows[0])
