"""Messages of the task queue, sent by tests."""

from __future__ import annotations

from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher


def enqueue_run(run_id: object) -> None:
    batch = WriteBatch(write_alias())
    dispatcher.enqueue(run_id, batch)
    batch.run()
