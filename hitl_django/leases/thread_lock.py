"""The row lock that every transaction over several tables of a thread takes first."""

from __future__ import annotations

from uuid import UUID

from hitl_django.db.alias import write_alias
from hitl_django.errors import NoSuchThread
from hitl_django.models import Thread

from . import queries


def lock_thread(*, pk: int | None = None, interrupt: UUID | None = None) -> Thread:
    """Returns the thread's row, locked until the transaction ends, with the database's ``now``.

    It is found by its key, or by a question of it; NoSuchThread without one.

    Every transaction that touches more than one table of a thread takes this lock first, so that
    no two of them can wait for each other. On SQLite the lock is the transaction itself.
    """
    using = write_alias()
    if pk is not None:
        rows = queries.LOCK.run(using, thread=pk)
    else:
        rows = queries.LOCK_OF.run(using, interrupt=interrupt)
    if not rows:
        raise NoSuchThread
    return queries.THREAD.read(using, rows[0])
