"""Recognition of errors from a database that is unavailable, busy or full."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from django.db import Error, InterfaceError, InternalError, OperationalError
from django.db.utils import DatabaseErrorWrapper

#: Django's errors that may be outages. ``is_outage`` checks an individual error.
ERRORS = (OperationalError, InterfaceError, InternalError)
#: Seconds after which a client should retry a request.
WAIT = 5

#: PostgreSQL's SQLSTATE for a write to a read-only database: a standby after a failover, or a
#: database that exceeds its quota.
_READ_ONLY = "25006"

#: Prefixes of the SQLSTATEs with which PostgreSQL ends a session or reports missing resources: lost
#: connections, insufficient resources, shutdowns, system errors, and idle timeouts in transactions.
#: Cancelled statements, lock timeouts and conflicts are not included.
_LOST = ("08", "53", "57P", "58", "25P03", "25P04")
#: The corresponding codes of SQLite.
_LOST_FILES = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
)


def is_outage(error: BaseException) -> bool:
    """Return whether an error means that the database is unavailable, busy or full.

    The same database operation may succeed later. The result is False for an invalid statement, for
    example after a missing migration. SQLite raises the same class of error in both cases.
    """
    if not isinstance(error, ERRORS):
        return False
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", None) == _READ_ONLY
    code = _sqlite_code(error)
    return code is None or code != sqlite3.SQLITE_ERROR


def is_database_lost(error: BaseException, using: str) -> bool:
    """Return whether the error, or one of its causes, is a lost connection to ``using``.

    ``using`` is a database alias. Errors of statements and of other databases don't count.
    """
    return any(
        isinstance(found, Error) and _is_loss(found) and using in _aliases(found)
        for found in _iterate_causes(error)
    )


def _is_loss(error: Error) -> bool:
    if (code := _sqlite_code(error)) is not None:
        return code in _LOST_FILES
    state = getattr(error.__cause__, "sqlstate", None)
    if state is None:
        # This is the driver's own error: it could not connect, or received no reply.
        return isinstance(error, OperationalError)
    return str(state).startswith(_LOST)


def _sqlite_code(error: BaseException) -> int | None:
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _aliases(error: Error) -> Iterator[str]:
    """Yield the aliases of the databases that may have raised the error.

    Django's error doesn't contain the alias. The traceback of the error contains the object that
    converted the driver's error, and this object has the alias.
    """
    trace = error.__traceback__
    while trace is not None:
        raiser = trace.tb_frame.f_locals.get("self")
        if isinstance(raiser, DatabaseErrorWrapper):
            yield raiser.wrapper.alias  # type: ignore[attr-defined]  # not in the stubs
        trace = trace.tb_next


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and recursively its causes, contexts and members of exception groups."""
    seen: set[int] = set()
    left = [error]
    while left:
        found = left.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            left += found.exceptions
        if found.__cause__ is not None:
            left.append(found.__cause__)
        elif found.__context__ is not None and not found.__suppress_context__:
            left.append(found.__context__)
