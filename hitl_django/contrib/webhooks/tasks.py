"""The message by which a worker learns that deliveries to an endpoint are due."""

from __future__ import annotations

from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher

DELIVER = "hitl_django.contrib.webhooks.delivery.deliver"


def enqueue_delivery(endpoint_id: object, batch: WriteBatch) -> None:
    """Add a message to the batch that an endpoint has deliveries due."""
    dispatcher.enqueue_task(DELIVER, endpoint_id, batch)
