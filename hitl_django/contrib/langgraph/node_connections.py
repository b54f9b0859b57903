"""Database connections that the nodes of a LangGraph run open, on whichever threads they run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db.backends.signals import connection_created

logger = logging.getLogger("hitl_django")

#: The connections that were opened within a run. LangGraph hands the context on to its threads.
_opened: ContextVar[list[Any] | None] = ContextVar("opened", default=None)


@contextmanager
def close_node_connections() -> Iterator[None]:
    """Close at the end of the block what connections were opened in it, on threads that are over.

    LangGraph ends its threads without a word, and what they opened would stay open until the
    garbage collector comes by.
    """
    opened: list[Any] = []
    token = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(token)
        for connection in opened:
            connection.inc_thread_sharing()
            try:
                connection.close()
            except Exception:
                logger.exception("could not close a connection to %r", connection.alias)


def _note_connection(connection: Any, **about: Any) -> None:
    if (opened := _opened.get()) is not None:
        opened.append(connection)


connection_created.connect(_note_connection, dispatch_uid="hitl_django.contrib.langgraph")
