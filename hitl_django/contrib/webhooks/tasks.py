"""A message that informs workers about due deliveries of an endpoint."""

from __future__ import annotations

from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher

DELIVER = "hitl_django.contrib.webhooks.delivery.deliver"


def enqueue_delivery(endpoint_id: object, batch: WriteBatch) -> None:
    """Add a message to the batch. The message makes a worker send the endpoint's deliveries."""
    dispatcher.enqueue_task(DELIVER, endpoint_id, batch)
