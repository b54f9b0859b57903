"""Rows of threads: found by their thread ids, or created."""

from __future__ import annotations

from django.db import models

from hitl_django.db.bulk_insert import BulkInsert, insertable_columns, take_key
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Thread

_FIND = PreparedSelect(
    lambda: (
        Thread.objects.order_by()
        .filter(thread_id=Parameter("thread_id", models.TextField()))
        .values_list("pk")
    )
)

#: Begins a thread, and what the database makes of it.
_NEW = BulkInsert(Thread, insertable_columns(Thread), fresh=True)
_MADE = RowMapper(Thread, only=["id", "created_at"])

#: The same with a key that was taken for it, and the moment it was.
_OWN = BulkInsert(Thread, ["id", *insertable_columns(Thread), "created_at"], fresh=True)


def find_thread(using: str, thread_id: str) -> int | None:
    """Returns the key of a thread's row, if there is one."""
    rows = _FIND.run(using, thread_id=thread_id)
    key: int | None = rows[0][0] if rows else None
    return key


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
