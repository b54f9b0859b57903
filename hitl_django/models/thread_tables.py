"""Tables with rows that belong to a thread, each with the lookup from a row to the thread."""

from __future__ import annotations

from django.db import models

from hitl_django.extensions import iterate_tables

from . import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Comment,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
    Thread,
)

#: Each table refers only to rows of the tables listed before it.
THREAD_TABLES: dict[type[models.Model], str] = {
    Thread: "pk",
    Run: "thread",
    Checkpoint: "thread",
    ChannelBlob: "thread",
    PendingWrite: "thread",
    RunEvent: "run__thread",
    Interrupt: "thread",
    Decision: "interrupt__thread",
    Comment: "interrupt__thread",
    AuditEntry: "thread",
}


def list_thread_tables() -> dict[type[models.Model], str]:
    """Return the models with rows that belong to a thread.

    The value for each model is the lookup from a row to the thread. Models of optional apps come
    last.
    """
    return {
        **THREAD_TABLES,
        **{each.model: each.thread for each in iterate_tables() if each.thread},
    }
