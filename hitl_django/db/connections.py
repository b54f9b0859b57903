"""Database connections of workers: how long they are kept, and clean-up after a node's function."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from hitl_django.errors import OpenTransactionError

logger = logging.getLogger("hitl_django")


class OpenTransactionRefusal:
    """Rolls back a transaction that a call of a node's function began and didn't end.

    Raises OpenTransactionError, unless the call raises something itself: what the node stored is
    undone, and what is stored after it on the same connection would be undone with it.
    """

    __slots__ = ("_before", "_node")

    def __init__(self, node: str) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._before = {each: _depth(each) for each in connections.all(initialized_only=True)}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if len(self._before) < len(connections.settings):
            # One that the call has made; each look at Django's connections costs a microsecond.
            made = connections.all(initialized_only=True)
            self._before |= {each: 0 for each in made if each not in self._before}
        left = _rolled_back(self._before)
        if left and kind is None:
            raise OpenTransactionError(
                f"Node '{self._node}' left a transaction open on "
                f"{', '.join(map(repr, left))}, or autocommit off. Its changes were "
                "rolled back."
            )
        for alias in left:
            logger.error("node %s failed and left a transaction open on %r", self._node, alias)


def keep_connections() -> None:
    """Have this process and its forks reuse connections to PostgreSQL instead of reconnecting.

    With ``CONN_MAX_AGE = 0``, Django's default, ``close_old_connections()`` closes a connection.
    Queues call it around every task and operation. A kept connection is checked before its first
    use after such a call. Databases with another ``CONN_MAX_AGE`` or a pool keep their settings.
    """
    for connection in connections.all():
        settings = connection.settings_dict
        has_pool = bool(settings["OPTIONS"].get("pool"))
        if connection.vendor == "postgresql" and settings["CONN_MAX_AGE"] == 0 and not has_pool:
            settings |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}


def close_connections() -> None:
    """Close the connections that a thread which is done with its tasks has opened.

    They are its own, and so nobody else's ever again: left to the garbage collector they would stay
    open for as long as that takes, until the server has none left.
    """
    for connection in connections.all(initialized_only=True):
        try:
            connection.close()
        except Exception:
            logger.exception("could not close a connection to %r", connection.alias)


def reset_connections() -> None:
    """Close this thread's connections that may be in the middle of a statement.

    An error that a signal raises interrupts the driver anywhere. A transaction keeps its own.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def close_lost_connections() -> None:
    """Close the connections that have been lost, so that the next query opens another.

    Those of this thread, and of the one on which async nodes query: nobody else looks after that.
    """
    _close_lost()
    asyncio.run(sync_to_async(_close_lost)())


def _close_lost() -> None:
    for connection in connections.all(initialized_only=True):
        # Whoever is in a transaction, as a test is, would lose it.
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _depth(connection: Any) -> int:
    """Count the atomic blocks that a connection is in; autocommit set off by hand is one."""
    if connection.connection is None:
        return 0
    if connection.in_atomic_block:
        return 1 + len(connection.savepoint_ids)
    return 0 if connection.autocommit else 1


def _rolled_back(before: dict[Any, int]) -> list[str]:
    """End what was begun since; returns the connections it was begun on."""
    left = []
    for connection, kept in before.items():
        if _depth(connection) <= kept:
            continue
        left.append(connection.alias)
        if kept:
            _roll_back_to(connection, kept - 1)
        else:
            connection.close()
            del connections[connection.alias]
    return left


def _roll_back_to(connection: Any, savepoints: int) -> None:
    """Leave the inner atomic blocks, and the one that the caller is in as it was."""
    while len(connection.savepoint_ids) > savepoints:
        savepoint = connection.savepoint_ids.pop()
        if savepoint is not None:
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)
