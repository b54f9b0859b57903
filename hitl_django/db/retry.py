"""Retries of transactions that the database undid because of others.

Under REPEATABLE READ and SERIALIZABLE PostgreSQL keeps transactions apart by undoing one of two
that come into each other's way; under any isolation it does so with one of two that wait for each
other. Nothing of the one that was undone has happened, and what it had read may be another by now:
so it begins again from its beginning.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connections

from .alias import write_alias

P = ParamSpec("P")
R = TypeVar("R")

#: As the SQL standard has them: a serialization failure; and PostgreSQL's own: a deadlock.
CODES = ("40001", "40P01")
#: How often one is made anew at most. Of those that clash one gets through each time.
MOST = 40
#: Seconds between two tries, some of which are left to chance: at first at most, and at last.
FIRST, LAST = 0.005, 0.5


def retry_on_conflict(act: Callable[P, R]) -> Callable[P, R]:
    """Call the function again where the database undid its transaction.

    It doesn't do so within a transaction of the caller's, of which the function is a part: that one
    is undone as a whole, and whoever began it has to begin it again.
    """

    @wraps(act)
    def acting(*args: P.args, **kwargs: P.kwargs) -> R:
        tries = 0
        while True:
            try:
                return act(*args, **kwargs)
            except OperationalError as error:
                if not (_is_outermost() and may_retry(error, tries)):
                    raise
            tries += 1

    return acting


def may_retry(error: OperationalError, tries: int) -> bool:
    """Return whether the error is such a conflict; waits before it says yes."""
    if not is_conflict(error) or tries >= MOST:
        return False
    time.sleep(random.uniform(0, min(LAST, FIRST * 2 ** min(tries, 10))))
    return True


def is_conflict(error: BaseException) -> bool:
    """Return whether the database undid a transaction for the sake of another."""
    return getattr(error.__cause__, "sqlstate", None) in CODES


def _is_outermost() -> bool:
    connection = connections[write_alias()]
    return not connection.in_atomic_block and connection.get_autocommit()
