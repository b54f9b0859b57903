"""Runs that wait for earlier runs of their thread, and the message that starts the next of them."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Run
from hitl_django.task_queue import dispatcher


def select_waiting(using: str, thread: int) -> QuerySet[Run]:
    """Return a thread's runs that wait for earlier runs, in the order in which they start."""
    waiting = Run.objects.using(using).filter(thread=thread, state=Run.State.WAITING)
    return waiting.order_by("number", "pk")


def enqueue_next(batch: WriteBatch, thread: int) -> None:
    """Add a message that starts the next waiting run of a thread, if there is one."""
    found: UUID | None = select_waiting(batch.using, thread).values_list("pk", flat=True).first()
    if found is not None:
        dispatcher.enqueue_message(found, batch)
