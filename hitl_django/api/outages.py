"""A database that is away, locked or out of room: what can be tried again, told from what can't."""

from __future__ import annotations

import sqlite3

from django.db import InterfaceError, OperationalError

#: What Django raises where the database itself gave no answer, or none in time.
ERRORS = (OperationalError, InterfaceError)
#: Seconds after which a client may try again.
WAIT = 5


def is_outage(error: BaseException) -> bool:
    """Says whether the same request may well succeed later.

    SQLite has the same error for a statement that is wrong: that is a fault of the installation,
    such as a migration that is missing, and ends where the host's other exceptions do.
    """
    if not isinstance(error, ERRORS):
        return False
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is None or code & 0xFF != sqlite3.SQLITE_ERROR
