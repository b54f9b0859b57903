"""The lock that every transaction over several tables of a thread takes first."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.models.functions import Now

from hitl_django.models import Thread


def lock_thread(**which: Any) -> Thread:
    """Returns the thread's row, locked until the transaction ends, with the database's ``now``.

    Every transaction that touches more than one table of a thread takes this lock first, so that
    no two of them can wait for each other. On SQLite the lock is the transaction itself.
    """
    threads = Thread.objects.using(router.db_for_write(Thread)).select_for_update(of=("self",))
    thread: Any = threads.annotate(clock=Now()).get(**which)
    thread.now = thread.clock
    locked: Thread = thread
    return locked
