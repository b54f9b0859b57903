"""Database connections that nodes open on OS threads of a framework, such as LangGraph."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Thread
from typing import Any

from django.db.backends.signals import connection_created

logger = logging.getLogger("hitl_django")

#: Connections opened within a block. Frameworks copy this context variable to their OS threads.
_opened: ContextVar[list[Any] | None] = ContextVar("opened", default=None)


@contextmanager
def close_node_connections() -> Iterator[None]:
    """At the end of the block, close connections that nodes opened on OS threads of a framework.

    Frameworks give no notice when their OS threads end. The connections would otherwise stay open
    until garbage collection.
    """
    opened: list[Any] = []
    token = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(token)
        if opened:
            # Django doesn't close connections on an OS thread with an event loop.
            closing = Thread(target=_close_all, args=(opened,))
            closing.start()
            closing.join()


def _close_all(opened: list[Any]) -> None:
    for connection in opened:
        connection.inc_thread_sharing()
        try:
            connection.close()
        except Exception:
            logger.exception("could not close a connection to %r", connection.alias)


def _note_connection(connection: Any, **about: Any) -> None:
    if (opened := _opened.get()) is not None:
        opened.append(connection)


connection_created.connect(_note_connection, dispatch_uid="hitl_django.db")
