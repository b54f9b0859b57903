"""The floor of what people wait for: its very statements once more, by the driver alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tools.benchmarks import stores

from .engines import OURS
from .stores import SQLITE
from .workloads import Once, check


class Replayed:
    """Takes n runs through the statements and the transactions that ``once`` took them through.

    Before each round their rows are removed, and the key of a thread begins where it did: so the
    same values stand for the same rows, and every condition holds as it did.
    """

    def __init__(self, kind: str, once: Once, n: int) -> None:
        from hitl_django.models import Thread

        self.kind, self.n = kind, n
        newest = Thread.objects.order_by("-pk").first()
        self.last = 0 if newest is None else newest.pk
        once()  # what is done once in a process is no part of it
        self.prepare()
        with _recorded(kind) as self.statements:
            once()
        self.execute = _driver(kind)

    def prepare(self) -> None:
        from django.db import connection
        from django_q.models import OrmQ

        from hitl_django.models import Thread

        OrmQ.objects.all().delete()
        Thread.objects.filter(pk__gt=self.last).delete()
        with connection.cursor() as cursor:
            if self.kind == SQLITE:
                sequence = "UPDATE sqlite_sequence SET seq = %s WHERE name = 'hitl_django_thread'"
                cursor.execute(sequence, [self.last])
            else:
                sequence = "setval(pg_get_serial_sequence('hitl_django_thread', 'id'), %s, false)"
                cursor.execute(f"SELECT {sequence}", [self.last + 1])

    def __call__(self) -> int:
        from hitl_django.models import Run

        for text, parameters in self.statements:
            self.execute(text, parameters)
        done = Run.objects.filter(thread__gt=self.last, state=Run.State.SUCCEEDED)
        check(done.count(), self.n)
        return self.n


@contextmanager
def _recorded(kind: str) -> Iterator[list[tuple[Any, Any]]]:
    """Gives a list that is filled with what this thread's connection executes meanwhile."""
    from django.db import connection

    found: list[tuple[Any, Any]] = []
    begin = "BEGIN IMMEDIATE" if kind == SQLITE else "BEGIN"
    inside = False

    def note(execute: Any, sql: str, parameters: Any, *rest: Any) -> Any:
        nonlocal inside
        if not sql.startswith("BEGIN"):
            if connection.in_atomic_block and not inside:
                inside = True
                found.append((_marked(begin, kind), ()))
            found.append((_marked(sql, kind), tuple(parameters or ())))
        return execute(sql, parameters, *rest)

    commit = connection.commit

    def committed() -> None:
        nonlocal inside
        commit()
        found.append((_marked("COMMIT", kind), ()))
        inside = False

    with patch.object(connection, "commit", committed), connection.execute_wrapper(note):
        yield found


def _marked(sql: str, kind: str) -> str | bytes:
    """Returns a statement as the driver takes it without another look at its text."""
    from hitl_django.db.raw_cursor import with_numbers, with_question_marks

    return with_question_marks(sql) if kind == SQLITE else with_numbers(sql)


def _driver(kind: str) -> Any:
    """Returns what executes a statement and fetches what it returns, on another connection."""
    database = stores.url(OURS, kind)
    if kind == SQLITE:
        import sqlite3

        from django.db.backends.sqlite3 import _functions

        connection = sqlite3.connect(
            database.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
        )
        _functions.register(connection)
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        cursor = connection.cursor()

        def execute(text: str, parameters: Any) -> None:
            cursor.execute(text, parameters)
            cursor.fetchall()

        return execute

    import psycopg

    numbered = psycopg.RawCursor(psycopg.connect(database, autocommit=True, prepare_threshold=0))

    def run(text: bytes, parameters: Any) -> None:
        numbered.execute(text, parameters)
        if numbered.description:
            numbered.fetchall()

    return run
