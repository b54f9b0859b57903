"""Database connections of workers: lifetime, and cleanup after calls of nodes."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from hitl_django.errors import OpenTransactionError

logger = logging.getLogger("hitl_django")

#: libpq's transaction status of a connection: active, in a transaction, in a failed transaction.
_IN_TRANSACTION = (1, 2, 3)


class OpenTransactionRefusal:
    """A context manager that rolls back transactions left open by a node's function.

    After the rollback, OpenTransactionError is raised, unless the function has raised an error.
    Without the rollback, later changes on the same connection would become part of the open
    transaction and could be lost.
    """

    __slots__ = ("_before", "_node")

    def __init__(self, node: str) -> None:
        self._node = node

    def __enter__(self) -> None:
        # This includes databases without an open connection, because the call may open it.
        self._before = {each: _count_blocks(each) for each in connections.all()}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = _roll_back_open(self._before)
        if left and kind is None:
            raise OpenTransactionError(
                f"Node '{self._node}' left a transaction open on "
                f"{', '.join(map(repr, left))}, or autocommit off. Its changes were "
                "rolled back."
            )
        for alias in left:
            logger.error("node %s failed and left a transaction open on %r", self._node, alias)


def keep_connections() -> None:
    """Let this process and its forks reuse connections to PostgreSQL.

    Task queues call ``close_old_connections()`` around every task. With ``CONN_MAX_AGE = 0``,
    Django's default, this closes every connection. After ``keep_connections()``, a connection stays
    open and is checked before its next use. Databases with another ``CONN_MAX_AGE`` or a pool keep
    their settings.
    """
    for connection in connections.all():
        settings = connection.settings_dict
        has_pool = bool(settings["OPTIONS"].get("pool"))
        if connection.vendor == "postgresql" and settings["CONN_MAX_AGE"] == 0 and not has_pool:
            settings |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}


def close_connections() -> None:
    """Close the connections of the current OS thread after its last task.

    No other OS thread can use these connections, so they would otherwise remain open until garbage
    collection, and the server could run out of connections.
    """
    for connection in connections.all(initialized_only=True):
        try:
            connection.close()
        except Exception:
            logger.exception("could not close a connection to %r", connection.alias)


def reset_connections() -> None:
    """Close this OS thread's connections after an error that may have interrupted a statement.

    A handler of an operating system signal may raise an error while the database driver is running.
    Connections in a transaction remain open.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def close_faulty_connections() -> None:
    """Close connections with errors, so that the next query opens a new connection.

    The function also closes connections of the OS thread on which async nodes run queries.
    """
    _close_faulty()
    asyncio.run(sync_to_async(_close_faulty)())


def _close_faulty() -> None:
    for connection in connections.all(initialized_only=True):
        # A usable connection is closed too, because a node may have changed settings of its
        # session, such as the search path. A connection in a transaction is not closed, because the
        # transaction, such as that of a test, would be lost.
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close()


def _is_in_transaction(connection: Any) -> bool:
    """Return whether the driver's connection is in a transaction, or would begin one.

    Django doesn't notice a transaction that a statement such as ``BEGIN`` has begun, or that the
    driver begins after a change of its own settings.
    """
    raw = connection.connection
    if connection.vendor == "sqlite":
        try:
            return raw.in_transaction or raw.isolation_level is not None
        except connection.Database.ProgrammingError:
            return False  # The node has closed the driver's connection.
    if connection.vendor == "postgresql":
        return not raw.autocommit or raw.info.transaction_status in _IN_TRANSACTION
    return False


def _count_blocks(connection: Any) -> int:
    """Return the number of atomic blocks on a connection.

    Disabled autocommit, and a transaction without an atomic block, count as one block.
    """
    if connection.connection is None:
        return 0
    if connection.in_atomic_block:
        return 1 + len(connection.savepoint_ids)
    return 1 if not connection.autocommit or _is_in_transaction(connection) else 0


def _roll_back_open(before: dict[Any, int]) -> list[str]:
    """Roll back the transactions opened since ``before``. Return the aliases of the databases.

    ``before`` contains the number of atomic blocks by connection.
    """
    left = []
    for connection, kept in before.items():
        if _count_blocks(connection) <= kept:
            continue
        left.append(connection.alias)
        if kept:
            _roll_back_to(connection, kept - 1)
        else:
            connection.close()
            del connections[connection.alias]
    return left


def _roll_back_to(connection: Any, savepoints: int) -> None:
    """Roll back and leave the innermost atomic blocks, until ``savepoints`` blocks remain."""
    while len(connection.savepoint_ids) > savepoints:
        savepoint = connection.savepoint_ids.pop()
        if savepoint is not None:
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)
