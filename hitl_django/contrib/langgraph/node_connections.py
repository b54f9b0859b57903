"""Database connections that the nodes of a LangGraph run open on any OS thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db.backends.signals import connection_created

logger = logging.getLogger("hitl_django")

#: Connections opened within a run. LangGraph copies this context variable to its OS threads.
_opened: ContextVar[list[Any] | None] = ContextVar("opened", default=None)


@contextmanager
def close_node_connections() -> Iterator[None]:
    """Close the connections that nodes have opened on LangGraph's OS threads inside the block.

    LangGraph gives no notice when its OS threads end. Without this function, the connections would
    stay open until they are garbage-collected.
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
