"""The task as which a message travels."""

from __future__ import annotations

from celery import shared_task

from hitl_django.worker import messages

NAME = "hitl_django.perform"


# acks_late and reject_on_worker_lost: a message whose worker was killed comes to another at once,
# where it would wait for the sweep. It may come twice, which does no harm.
@shared_task(name=NAME, acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def perform(function: str, argument: str) -> None:
    """Call what the message names."""
    messages.perform(function, argument)
