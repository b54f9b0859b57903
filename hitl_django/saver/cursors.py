"""Cursors for statements whose text is made once: the driver's own, as far as nobody watches.

Django's cursor is made anew for each statement and translates its marks anew, which on SQLite
takes as long as the statement itself. On PostgreSQL it writes the values into the text, so that the
server has to parse and plan what it has just planned. So a statement of ours goes to the driver as
it is: with the marks translated before, and on PostgreSQL with its values beside it, where
``prepare_threshold`` allows the server to keep the plan. psycopg itself translates any text of more
than 4,096 bytes anew each time, which our larger ones are.

Whoever watches a connection sees every statement: with an execute wrapper, or while queries are
logged, Django's cursor takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe

_MARK = re.compile(r"(?<!%)%s")
#: Characters of a statement whose translation is remembered; longer ones hold many rows.
_LONGEST = 20_000

#: Writes a statement's marks as a driver calls them: one that remembers, and one that doesn't.
_Translation = tuple[Callable[[str], Any], Callable[[str], Any]]

#: The driver's connection and cursor, and its marks, by Django's connection.
_kept: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, Any, Any]] = WeakKeyDictionary()


class Cursor:
    """One use of the driver's cursor; what a statement returns is fetched before the next."""

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
        pass  # the next statement uses it again

    def execute(self, text: str, parameters: Any) -> None:
        connection = self._connection
        if connection.needs_rollback:
            connection.validate_no_broken_transaction()
        if self._translation is not None:
            kept, fresh = self._translation
            text = kept(text) if len(text) <= _LONGEST else fresh(text)
        with connection.wrap_database_errors:
            self._raw.execute(text, parameters)

    @property
    def rowcount(self) -> int:
        count: int = self._raw.rowcount
        return count


def is_watched(connection: Any) -> bool:
    """Tells whether somebody looks at the connection's statements."""
    return bool(connection.execute_wrappers) or connection.queries_logged


@async_unsafe("You cannot call this from an async context - use a thread or sync_to_async.")
def cursor(connection: Any) -> Any:
    """Returns a cursor, opening a connection if necessary."""
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
    return Cursor(connection, kept, translation)


def _opened(connection: Any, raw: Any) -> tuple[Any, _Translation | None]:
    """Returns a cursor of the driver's, and how it calls the marks if they aren't Django's."""
    if connection.vendor == "sqlite":
        return raw.cursor(), _QUESTION_MARKS
    if getattr(raw, "prepare_threshold", None) is None:
        return connection.create_cursor(), None  # the server may keep nothing of what it prepared
    from psycopg import RawCursor

    return RawCursor(raw), _NUMBERED


def with_question_marks(text: str) -> str:
    """Writes a statement's marks as SQLite calls them."""
    return _MARK.sub("?", text).replace("%%", "%")


def with_numbers(text: str) -> bytes:
    """Writes a statement's marks as PostgreSQL calls them."""
    # As bytes, which know their hash: psycopg looks up by it what is prepared.
    first, *others = _MARK.split(text)
    parts = [first, *(f"${at}{part}" for at, part in enumerate(others, 1))]
    return "".join(parts).replace("%%", "%").encode()


def _remembering(translate: Callable[[str], Any]) -> _Translation:
    return lru_cache(maxsize=2048)(translate), translate


_QUESTION_MARKS, _NUMBERED = _remembering(with_question_marks), _remembering(with_numbers)
