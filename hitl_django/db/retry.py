"""Retries of transactions that the database rolled back because of a conflict.

Under REPEATABLE READ and SERIALIZABLE, PostgreSQL rolls back one of two conflicting transactions.
At any isolation level, PostgreSQL rolls back one of two transactions in a deadlock. The values that
the transaction has read may be outdated, so the transaction is repeated from its beginning.
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

#: The SQLSTATEs of a serialization failure and of a deadlock.
CODES = ("40001", "40P01")
#: The maximum number of retries. Of several conflicting transactions, one succeeds in each round.
MOST = 40
#: The maximum seconds before the first retry and before later retries. The actual delay is random.
FIRST, LAST = 0.005, 0.5


def retry_on_conflict(act: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls ``act`` again after a database conflict.

    If the caller has opened a transaction, a conflict rolls back the caller's whole transaction.
    In this case, ``act`` isn't called again. The error is raised, and the caller must repeat the
    transaction.
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
    """Return whether a transaction can be retried after an error. If so, sleep before returning.

    ``tries`` is the number of failed tries.
    """
    if not is_conflict(error) or tries >= MOST:
        return False
    time.sleep(random.uniform(0, min(LAST, FIRST * 2 ** min(tries, 10))))
    return True


def is_conflict(error: BaseException) -> bool:
    """Return whether the error means that the database rolled back a conflicting transaction."""
    return getattr(error.__cause__, "sqlstate", None) in CODES


def _is_outermost() -> bool:
    connection = connections[write_alias()]
    return not connection.in_atomic_block and connection.get_autocommit()
