"""Counts of database operations, which are more stable than times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.db import connection

_CONTROL = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")
_READING = ("SELECT",)


class Counts:
    """Statements, writing transactions and bytes of payload on the default connection."""

    def __init__(self) -> None:
        self.statements = self.transactions = self.bytes = 0
        self.texts: list[str] = []
        self._writes = False

    def note(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        word = sql.lstrip("(").split(None, 1)[0].upper()
        if word in _CONTROL:
            return execute(sql, *rest)
        self.statements += 1
        self.texts.append(sql)
        if word not in _READING:
            self.bytes += sum(len(one) for one in rest[0] or () if isinstance(one, bytes))
            if connection.in_atomic_block:
                self._writes = True
            else:
                self.transactions += 1
        return execute(sql, *rest)

    def committed(self) -> None:
        self.transactions += self._writes
        self._writes = False


@contextmanager
def counting() -> Iterator[Counts]:
    """Count the database operations on the connection of the current OS thread."""
    counts = Counts()
    commit = connection.commit

    def counted_commit() -> None:
        commit()
        counts.committed()

    connection.commit = counted_commit  # type: ignore[method-assign]
    try:
        with connection.execute_wrapper(counts.note):
            yield counts
    finally:
        del connection.commit


class Trips:
    """Round trips to PostgreSQL.

    Several statements may share one round trip.
    """

    def __init__(self) -> None:
        self.trips = 0


@contextmanager
def counting_trips() -> Iterator[Trips]:
    """Count the waits of this process for PostgreSQL."""
    from psycopg import Connection

    counts = Trips()
    wait = Connection.wait

    def counted_wait(self: Any, generator: Any, *rest: Any, **options: Any) -> Any:
        # A pipeline counts once, because its statements are sent without waiting for each result.
        counts.trips += self._pipeline is None or self._pipeline.level == 0
        return wait(self, generator, *rest, **options)

    with patch.object(Connection, "wait", counted_wait):
        yield counts


def counted_trips(once: Callable[[], int]) -> dict[str, float]:
    """Return the number of round trips to PostgreSQL per unit of one round."""
    with counting_trips() as counts:
        units = once()
    return {"trips": counts.trips / units}


def counted(once: Callable[[], int]) -> dict[str, float]:
    """Return the statements, writing transactions and payload bytes per unit of one round."""
    with counting() as counts:
        units = once()
    return {
        "statements": counts.statements / units,
        "transactions": counts.transactions / units,
        "bytes": counts.bytes / units,
    }
