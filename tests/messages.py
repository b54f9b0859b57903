"""Messages of the task queue, sent by tests."""

from __future__ import annotations

from hitl_django.contrib.django_q2 import Dispatcher as DjangoQ2Dispatcher
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher, due_runs


class MessageDispatcher(DjangoQ2Dispatcher):
    """django-q2 as a queue that carries a message for each queued run."""

    def watches_runs(self) -> bool:
        return False


#: Settings that select this dispatcher.
MESSAGES = {"DISPATCH": f"{__name__}.{MessageDispatcher.__name__}"}


def enqueue_run(run_id: object) -> None:
    batch = WriteBatch(write_alias())
    dispatcher.enqueue_message(run_id, batch)
    batch.run()


def count_due_runs() -> int:
    """Return the number of runs that a worker without a message would execute."""
    return due_runs.select_due().count()
