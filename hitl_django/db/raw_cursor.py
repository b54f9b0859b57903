"""Cursors that pass prepared statements directly to the database driver.

For each statement, Django creates a new cursor and translates the placeholders. On SQLite, this
takes as long as the statement itself. On PostgreSQL, Django writes the values into the text, so the
server parses and plans the statement each time. This module passes a prepared statement to the
driver with translated placeholders. On PostgreSQL, the values are passed separately, if
``prepare_threshold`` allows the server to keep the plan. psycopg itself translates texts of more
than 4,096 bytes each time.

A statement can also be sent together with a following query, in one round trip.

If a connection has an execute wrapper or logs queries, Django's cursor is used, so that
instrumentation sees every statement.
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
#: The maximum length of a statement whose translation is cached. Longer statements contain many
#: rows.
_LONGEST = 20_000

#: Functions that translate the placeholders for a driver: one with a cache, one without.
_Translation = tuple[Callable[[str], Any], Callable[[str], Any]]

#: The driver's connection, cursor and placeholders, by Django's connection.
_kept: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, Any, Any]] = WeakKeyDictionary()


class RawCursor:
    """A context manager that provides the driver's cursor.

    Results must be fetched before the next statement. At the end of the ``with`` block, errors of
    the driver are converted to Django's errors.
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
        # The driver's cursor stays open for the next use.
        if kind is not None:
            self._connection.wrap_database_errors.__exit__(kind, error, trace)

    def execute(self, text: str, parameters: Any) -> None:
        """Execute a statement with Django's placeholders (``%s``)."""
        connection = self._connection
        if connection.needs_rollback:
            connection.validate_no_broken_transaction()
        if self._translation is not None:
            kept, fresh = self._translation
            text = kept(text) if len(text) <= _LONGEST else fresh(text)
        self._raw.execute(text, parameters)

    def another(self) -> RawCursor:
        """Return another cursor of the connection, for a statement in the same round trip."""
        raw = type(self._raw)(self._raw.connection)
        return RawCursor(self._connection, raw, self._translation)

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement returned or changed."""
        count: int = self._raw.rowcount
        return count


def is_watched(connection: Any) -> bool:
    """Return whether the connection has an execute wrapper or logs queries."""
    return bool(connection.execute_wrappers) or connection.queries_logged


@async_unsafe("You cannot call this from an async context - use a thread or sync_to_async.")
def open_cursor(connection: Any, *, is_unwatched: bool = False) -> Any:
    """Return a RawCursor. If necessary, the connection is opened.

    Return Django's cursor if the connection is watched (see ``is_watched``) or isn't a connection
    to SQLite or PostgreSQL. If the caller has checked both, ``is_unwatched`` is true.
    """
    vendor = connection.vendor
    if not is_unwatched and (is_watched(connection) or vendor not in ("sqlite", "postgresql")):
        return connection.cursor()
    connection.close_if_health_check_failed()
    if connection.connection is None:
        connection.ensure_connection()
    connection.validate_thread_sharing()
    raw, kept, translation = _kept.get(connection, (None, None, None))
    if raw is not connection.connection:
        raw = connection.connection
        with connection.wrap_database_errors:
            kept, translation = _open_raw_cursor(connection, raw)
        _kept[connection] = raw, kept, translation
    return RawCursor(connection, kept, translation)


def execute_together(
    connection: Any, first: Any, statements: Sequence[tuple[str, Any]]
) -> list[list[Any]]:
    """Execute statements that return rows, in one round trip and one transaction.

    ``first`` is the cursor of the first statement, from ``open_cursor``. Each statement sees the
    changes of the earlier statements, and changes that other transactions have committed. The
    connection must support pipelines (see ``can_pipeline``).
    """
    is_raw = isinstance(first, RawCursor)
    others = [first.another() if is_raw else connection.cursor() for _ in statements[1:]]
    with connection.wrap_database_errors:
        with connection.connection.pipeline():
            for cursor, (text, parameters) in zip([first, *others], statements, strict=True):
                cursor.execute(text, parameters)
        return [cursor.fetchall() for cursor in [first, *others]]


def _open_raw_cursor(connection: Any, raw: Any) -> tuple[Any, _Translation | None]:
    """Return the driver's cursor, and the translation of placeholders or None if unnecessary.

    ``raw`` is the driver's connection.
    """
    if connection.vendor == "sqlite":
        return raw.cursor(), _QUESTION_MARKS
    if getattr(raw, "prepare_threshold", None) is None:
        return connection.create_cursor(), None  # The server must not keep prepared statements.
    from psycopg import RawCursor

    return RawCursor(raw), _NUMBERED


def can_pipeline(connection: Any) -> bool:
    """Return whether several statements can be sent in one round trip over an open connection."""
    # psycopg2 doesn't support pipelines.
    return hasattr(connection.connection, "pipeline") and _can_pipeline()


@cache
def _can_pipeline() -> bool:
    from psycopg import Pipeline

    return Pipeline.is_supported()


def with_question_marks(text: str) -> str:
    """Return a statement with SQLite's placeholders (``?``)."""
    return _MARK.sub("?", text).replace("%%", "%")


def with_numbers(text: str) -> bytes:
    """Return a statement with PostgreSQL's numbered placeholders (``$1``)."""
    # The text is bytes, which cache their hash. psycopg uses the hash to look up prepared
    # statements.
    first, *others = _MARK.split(text)
    parts = [first, *(f"${at}{part}" for at, part in enumerate(others, 1))]
    return "".join(parts).replace("%%", "%").encode()


def _with_cache(translate: Callable[[str], Any]) -> _Translation:
    return lru_cache(maxsize=2048)(translate), translate


_QUESTION_MARKS, _NUMBERED = _with_cache(with_question_marks), _with_cache(with_numbers)
