"""Outages of a database that is away, busy or out of room, and how their errors are recognized."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from django.db import Error, InterfaceError, InternalError, OperationalError
from django.db.utils import DatabaseErrorWrapper

#: Errors of Django's that can be an outage: ``is_outage`` tells whether one is.
ERRORS = (OperationalError, InterfaceError, InternalError)
#: Seconds after which a client may try again.
WAIT = 5

#: PostgreSQL's SQLSTATE for a write where nothing can be written: to a standby after a failover, or
#: to a database that a provider made read-only because its quota is used up.
_READ_ONLY = "25006"

#: Beginnings of the SQLSTATEs with which PostgreSQL ends a session or has nothing left to work
#: with: lost connections, insufficient resources, shutdowns, system errors, sessions that were
#: idle in a transaction or in one for too long. A statement that was cancelled, that waited for a
#: lock, or that others undid, is none of them.
_LOST = ("08", "53", "57P", "58", "25P03", "25P04")
#: The same of SQLite, whose connections are no wires.
_LOST_FILES = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
)


def is_outage(error: BaseException) -> bool:
    """Return whether the same request may well succeed later.

    SQLite has the same error for a statement that is wrong: that is a fault of the installation,
    such as a migration that is missing, and ends where the host's other exceptions do.
    """
    if not isinstance(error, ERRORS):
        return False
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", None) == _READ_ONLY
    code = _sqlite_code(error)
    return code is None or code != sqlite3.SQLITE_ERROR


def is_database_lost(error: BaseException, using: str) -> bool:
    """Return whether the error, or one that led to it, is that the database ``using`` was lost.

    An error in a statement is none of these, nor is any error of another database.
    """
    return any(
        isinstance(found, Error) and _is_loss(found) and using in _aliases(found)
        for found in _led_to(error)
    )


def _is_loss(error: Error) -> bool:
    if (code := _sqlite_code(error)) is not None:
        return code in _LOST_FILES
    state = getattr(error.__cause__, "sqlstate", None)
    if state is None:
        # The driver's own: it couldn't connect, or what it had sent was never answered.
        return isinstance(error, OperationalError)
    return str(state).startswith(_LOST)


def _sqlite_code(error: BaseException) -> int | None:
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _aliases(error: Error) -> Iterator[str]:
    """Yield the databases that raised the error.

    An error of Django's doesn't say, but what made it of the driver's stands in its traceback.
    """
    trace = error.__traceback__
    while trace is not None:
        raiser = trace.tb_frame.f_locals.get("self")
        if isinstance(raiser, DatabaseErrorWrapper):
            yield raiser.wrapper.alias  # type: ignore[attr-defined]  # not in the stubs
        trace = trace.tb_next


def _led_to(error: BaseException) -> Iterator[BaseException]:
    """Yield an error with all those that it was raised from, while handling, or as a group of."""
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
