"""Runs that wait for their turn on a thread: which is next, and the message that it may begin."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Run
from hitl_django.task_queue import dispatcher


def select_waiting(using: str, thread: int) -> QuerySet[Run]:
    """Return the runs that wait for a thread, in the order in which they begin."""
    waiting = Run.objects.using(using).filter(thread=thread, state=Run.State.WAITING)
    return waiting.order_by("number", "pk")


def enqueue_next(batch: WriteBatch, thread: int) -> None:
    """Add a message for the run that is next on a thread, if any waits.

    A worker begins it then, where the thread is free (services/runs/waiting.py). Should the
    message be lost, the sweep enqueues another.
    """
    found: UUID | None = select_waiting(batch.using, thread).values_list("pk", flat=True).first()
    if found is not None:
        dispatcher.enqueue(found, batch)
