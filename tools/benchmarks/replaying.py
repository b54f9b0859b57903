"""Floors of durable work: the same statements, executed again by the driver or by Django.

On PostgreSQL, the driver sends the statements of a transaction in a pipeline with one round trip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any
from unittest.mock import patch

from tools.benchmarks import stores

from .engines import OURS
from .stores import POSTGRES, SQLITE
from .workloads import Once, check

Statement = tuple[Any, Any]  # The text of a statement, and its parameters.

#: Statement that begins a writing transaction, by database.
BEGIN = {SQLITE: "BEGIN IMMEDIATE", POSTGRES: "BEGIN"}
_CONTROL = {*BEGIN.values(), "COMMIT"}


class Replayed:
    """Replay of the statements and transactions of ``once`` by the driver alone.

    Before each round, the rows are deleted, and the sequence of thread keys is reset. The
    parameters then refer to the same rows, and every condition matches again.
    """

    def __init__(self, kind: str, once: Once) -> None:
        from hitl_django.models import Thread

        self.kind = kind
        newest = Thread.objects.order_by("-pk").first()
        self.last = 0 if newest is None else newest.pk
        once()  # Warms up caches.
        self.prepare()
        with _recorded(kind) as statements:
            self.units = once()
        self.transactions = _group(statements)
        self.expected = self._count_rows()
        self.execute = self.open()

    def open(self) -> Any:
        """Return a function that executes a transaction and fetches its rows."""
        return _driver(self.kind)

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
                # Without this, each lookup would scan dead rows with the same key.
                cursor.execute(f"VACUUM {', '.join(_list_tables())}")

    def __call__(self) -> int:
        for transaction in self.transactions:
            self.execute(transaction)
        check(self._count_rows(), self.expected)
        return self.units

    def _count_rows(self) -> tuple[int, int]:
        """Return the numbers of checkpoints and of ended runs, which show complete storage."""
        from hitl_django.models import Checkpoint, Run

        ended = Run.objects.filter(thread__gt=self.last, state=Run.State.SUCCEEDED)
        return Checkpoint.objects.filter(thread__gt=self.last).count(), ended.count()


class ReplayedByDjango(Replayed):
    """Replay of the same transactions with cursors and transactions of Django."""

    def open(self) -> Any:
        from django.db import connection, transaction

        def execute(given: list[Statement]) -> None:
            inside = [one for one in given if one[0] not in _CONTROL]
            with transaction.atomic() if len(given) > 1 else nullcontext():
                for text, parameters in inside:
                    with connection.cursor() as cursor:
                        cursor.execute(text, parameters)
                        if cursor.description:
                            cursor.fetchall()

        return execute


def _list_tables() -> list[str]:
    from hitl_django.models.thread_tables import THREAD_TABLES

    return [model._meta.db_table for model in THREAD_TABLES]


@contextmanager
def _recorded(kind: str) -> Iterator[list[Statement]]:
    """Yield a list to which the statements of this OS thread's connection are added."""
    from django.db import connection

    found: list[Statement] = []
    inside = False

    def note(execute: Any, sql: str, parameters: Any, *rest: Any) -> Any:
        nonlocal inside
        if not sql.startswith("BEGIN"):
            if connection.in_atomic_block and not inside:
                inside = True
                found.append((BEGIN[kind], ()))
            found.append((sql, tuple(parameters or ())))
        return execute(sql, parameters, *rest)

    commit = connection.commit

    def committed() -> None:
        nonlocal inside
        commit()
        found.append(("COMMIT", ()))
        inside = False

    with patch.object(connection, "commit", committed), connection.execute_wrapper(note):
        yield found


def _group(statements: list[Statement]) -> list[list[Statement]]:
    """Return the statements grouped by transaction.

    In autocommit mode, each statement is a separate transaction.
    """
    groups: list[list[Statement]] = []
    inside = False
    for statement in statements:
        if not inside:
            groups.append([])
        groups[-1].append(statement)
        inside = statement[0] in BEGIN.values() or (inside and statement[0] != "COMMIT")
    return groups


def marked(sql: str, kind: str) -> str | bytes:
    """Return a statement with the placeholders of the driver."""
    from hitl_django.db.raw_cursor import with_numbers, with_question_marks

    return with_question_marks(sql) if kind == SQLITE else with_numbers(sql)


def _driver(kind: str) -> Any:
    """Return a function that executes a transaction on a second connection and fetches its rows."""
    translate = cache(partial(marked, kind=kind))
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

        def execute(transaction: list[Statement]) -> None:
            for text, parameters in transaction:
                cursor.execute(translate(text), parameters)
                cursor.fetchall()

        return execute

    import psycopg

    server = psycopg.connect(database, autocommit=True, prepare_threshold=0)
    numbered = psycopg.RawCursor(server)

    def run(transaction: list[Statement]) -> None:
        with server.pipeline() if len(transaction) > 1 else nullcontext():
            for text, parameters in transaction:
                numbered.execute(translate(text), parameters)
        if numbered.description:
            numbered.fetchall()

    return run
