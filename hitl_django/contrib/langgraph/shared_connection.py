"""Database calls on the OS threads that LangGraph starts for each run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import connections

from hitl_django.db.shared_connections import shared_connections
from hitl_django.errors import OpenTransactionError

P = ParamSpec("P")
R = TypeVar("R")

#: Connection of the OS thread that called the graph. LangGraph copies this context variable to its
#: OS threads.
_caller: ContextVar[Any] = ContextVar("caller", default=None)
#: Connections in use by these calls, with whether a transaction was already open.
_before: dict[int, bool] = {}


def call_with_connection(
    using: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a function with the database connection of the graph's caller.

    Outside of a graph, the connection of this OS thread is used. A connection opened on an OS
    thread of LangGraph would stay open until garbage collection.

    Raises:
        OpenTransactionError: the caller of the graph has an open transaction.
    """
    own, call = connections[using], partial(function, *args, **kwargs)
    if own.connection is not None:
        _caller.set(own)
        return _call_on(own, call)
    if (caller := _caller.get()) is not None and _has_transaction(caller):
        raise OpenTransactionError(
            "LangGraph stores checkpoints from other threads, which can't see the open "
            "transaction. Call the graph outside the transaction; in tests, use "
            "TransactionTestCase."
        )
    with shared_connections.use(using) as shared:
        # Use a separate context, so that later calls on this OS thread don't use the connection.
        return copy_context().run(_call_on, shared, call)


def _call_on(connection: Any, call: Callable[[], R]) -> R:
    if id(connection) in _before:
        return call()  # This is a nested call.
    _before[id(connection)] = connection.in_atomic_block
    try:
        return call()
    finally:
        del _before[id(connection)]


def _has_transaction(connection: Any) -> bool:
    """Return whether the caller of the graph has an open transaction.

    A transaction opened by the store itself doesn't count.
    """
    if connection.connection is None or not connection.in_atomic_block:
        return False
    if connection.closed_in_transaction:
        return False  # The run has replaced the connection of its node.
    return _before.get(id(connection), True)
