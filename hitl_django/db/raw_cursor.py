"""Cursors for prepared statements: the driver's own, unless somebody watches the queries.

Django's cursor is made anew for each statement and translates its placeholders anew, which on
SQLite takes as long as the statement itself. On PostgreSQL it writes the values into the text, so
that the server has to parse and plan what it has just planned. A prepared statement goes to the
driver instead: with its placeholders translated before, and on PostgreSQL with values beside it, if
``prepare_threshold`` allows the server to keep the plan. psycopg itself translates any text of more
than 4,096 bytes anew each time, which our larger ones are.

A statement can also be sent together with what is to be read after it, in one round trip.

Whoever watches a connection sees every statement: with an execute wrapper, or while queries are
logged, Django's cursor takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe

_MARK = re.compile(r"(?<!%)%s")
#: Characters of a statement whose translation is remembered; longer ones hold many rows.
_LONGEST = 20_000

#: Writes a statement's placeholders as a driver calls them: with a cache, and without one.
_Translation = tuple[Callable[[str], Any], Callable[[str], Any]]

#: The driver's connection and cursor, and its placeholders, by Django's connection.
_kept: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, Any, Any]] = WeakKeyDictionary()


class RawCursor:
    """One use of the driver's cursor; what a statement returns is fetched before the next.

    Used in a ``with`` block, from which the driver's errors come as Django's.
    """

    __slots__ = ("_connection", "_raw", "_translation", "fetchall")

    def __init__(self, connection: Any, raw: Any, translation: _Translation | None) -> None:
        self._connection, self._raw, self._translation = connection, raw, translation
        self.fetchall = raw.fetchall

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The driver's cursor stays open: the next use is of the same.
        if kind is not None:
            self._connection.wrap_database_errors.__exit__(kind, error, trace)

    def execute(self, text: str, parameters: Any) -> None:
        """Execute a statement with Django's placeholders."""
        connection = self._connection
        if connection.needs_rollback:
            connection.validate_no_broken_transaction()
        if self._translation is not None:
            kept, fresh = self._translation
            text = kept(text) if len(text) <= _LONGEST else fresh(text)
        self._raw.execute(text, parameters)

    def another(self) -> RawCursor:
        """Return a cursor of the same connection, for a statement of the same round trip."""
        raw = type(self._raw)(self._raw.connection)
        return RawCursor(self._connection, raw, self._translation)

    @property
    def rowcount(self) -> int:
        """How many rows the last statement returned or changed."""
        count: int = self._raw.rowcount
        return count


def is_watched(connection: Any) -> bool:
    """Return whether somebody looks at the connection's statements: a wrapper, or the log."""
    return bool(connection.execute_wrappers) or connection.queries_logged


@async_unsafe("You cannot call this from an async context - use a thread or sync_to_async.")
def open_cursor(connection: Any) -> Any:
    """Return a cursor, opening a connection if necessary."""
    vendor = connection.vendor
    if is_watched(connection) or vendor not in ("sqlite", "postgresql"):
        return connection.cursor()
    connection.close_if_health_check_failed()
    if connection.connection is None:
        connection.ensure_connection()
    connection.validate_thread_sharing()
    raw, kept, translation = _kept.get(connection, (None, None, None))
    if raw is not connection.connection:
        raw = connection.connection
        with connection.wrap_database_errors:
            kept, translation = _opened(connection, raw)
        _kept[connection] = raw, kept, translation
    return RawCursor(connection, kept, translation)


def execute_together(connection: Any, statements: Sequence[tuple[str, Any]]) -> list[list[Any]]:
    """Execute statements of which each returns rows, in one round trip and one transaction.

    Each sees what those before it have written and committed others, as if it came by itself.
    Asks for ``can_pipeline``.
    """
    first = open_cursor(connection)
    is_raw = isinstance(first, RawCursor)
    others = [first.another() if is_raw else connection.cursor() for _ in statements[1:]]
    with connection.wrap_database_errors:
        with connection.connection.pipeline():
            for cursor, (text, parameters) in zip([first, *others], statements, strict=True):
                cursor.execute(text, parameters)
        return [cursor.fetchall() for cursor in [first, *others]]


def _opened(connection: Any, raw: Any) -> tuple[Any, _Translation | None]:
    """Return the driver's cursor, and its placeholders if they aren't Django's."""
    if connection.vendor == "sqlite":
        return raw.cursor(), _INTERRUPT_MARKS
    if getattr(raw, "prepare_threshold", None) is None:
        return connection.create_cursor(), None  # the server may keep nothing of what it prepared
    from psycopg import RawCursor

    return RawCursor(raw), _NUMBERED


def can_pipeline(connection: Any) -> bool:
    """Return whether several statements can share a round trip of an open connection."""
    # psycopg's older brother knows nothing of it.
    return hasattr(connection.connection, "pipeline") and _can_pipeline()


@cache
def _can_pipeline() -> bool:
    from psycopg import Pipeline

    return Pipeline.is_supported()


def with_question_marks(text: str) -> str:
    """Return a statement with the placeholders of SQLite."""
    return _MARK.sub("?", text).replace("%%", "%")


def with_numbers(text: str) -> bytes:
    """Return a statement with the placeholders of PostgreSQL."""
    # As bytes, which know their hash: psycopg looks up by it what is prepared.
    first, *others = _MARK.split(text)
    parts = [first, *(f"${at}{part}" for at, part in enumerate(others, 1))]
    return "".join(parts).replace("%%", "%").encode()


def _remembering(translate: Callable[[str], Any]) -> _Translation:
    return lru_cache(maxsize=2048)(translate), translate


_INTERRUPT_MARKS, _NUMBERED = _remembering(with_question_marks), _remembering(with_numbers)
