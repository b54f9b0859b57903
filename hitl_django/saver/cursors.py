"""Cursors for statements whose text is made once: the driver's own, as far as nobody watches.

Django's cursor is made anew for each statement and translates its marks anew, which on SQLite
takes as long as the statement itself. On PostgreSQL it writes the values into the text, so that the
server has to parse and plan what it has just planned. So a statement of ours goes to the driver as
it is: on SQLite with the marks translated before, on PostgreSQL with its values beside it, where
``prepare_threshold`` allows the server to keep the plan.

Whoever watches a connection sees every statement: with an execute wrapper, or while queries are
logged, Django's cursor takes them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe

_MARK = re.compile(r"(?<!%)%s")
#: Characters of a statement whose translation is remembered; longer ones hold many rows.
_LONGEST = 20_000

#: The driver's connection and cursor, by Django's connection.
_kept: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, Any]] = WeakKeyDictionary()


class Cursor:
    """One use of the driver's cursor; what a statement returns is fetched before the next."""

    __slots__ = ("_connection", "_is_sqlite", "_raw", "fetchall")

    def __init__(self, connection: Any, raw: Any) -> None:
        self._connection, self._raw = connection, raw
        self._is_sqlite = connection.vendor == "sqlite"
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
        if self._is_sqlite:
            text = _translated(text) if len(text) <= _LONGEST else _translate(text)
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
    raw, kept = _kept.get(connection, (None, None))
    if raw is not connection.connection:
        raw = connection.connection
        with connection.wrap_database_errors:
            kept = raw.cursor() if vendor == "sqlite" else _binding(connection)
        _kept[connection] = raw, kept
    return Cursor(connection, kept)


def _binding(connection: Any) -> Any:
    """Returns a cursor whose values the server binds, if it may keep what it prepared."""
    raw = connection.connection
    if getattr(raw, "prepare_threshold", None) is None:
        return connection.create_cursor()
    from django.db.backends.postgresql import base

    made: Any = base.ServerBindingCursor
    return made(raw)


def _translate(text: str) -> str:
    return _MARK.sub("?", text).replace("%%", "%")


_translated = lru_cache(maxsize=2048)(_translate)
