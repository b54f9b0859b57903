"""Calls that need a database connection, on threads that LangGraph begins anew for each run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import connections

from hitl_django.db.shared_connections import lent_connections
from hitl_django.errors import OpenTransactionError

P = ParamSpec("P")
R = TypeVar("R")

#: The connection of who called a graph. LangGraph hands the context on to its threads.
_caller: ContextVar[Any] = ContextVar("caller", default=None)
#: Of the connections on which such a call is being made: whether a transaction was open before it.
_before: dict[int, bool] = {}


def call_with_connection(
    using: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Make a call on this thread's connection, or on one that it is lent where it has none.

    A connection that such a thread opened would be left to the garbage collector. Raises
    OpenTransactionError where whoever called the graph has a transaction open.
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
    with lent_connections.lend(using) as lent:
        # In a context of its own: for what this thread does next nobody with a connection called.
        return copy_context().run(_call_on, lent, call)


def _call_on(connection: Any, call: Callable[[], R]) -> R:
    if id(connection) in _before:
        return call()  # within another call
    _before[id(connection)] = connection.in_atomic_block
    try:
        return call()
    finally:
        del _before[id(connection)]


def _has_transaction(connection: Any) -> bool:
    """Return whether another thread has a transaction open, but for what it is storing just now."""
    if connection.connection is None or not connection.in_atomic_block:
        return False
    if connection.closed_in_transaction:
        return False  # a run closed what its node had left open, and has had a new one since
    return _before.get(id(connection), True)
