"""Celery task that carries a message."""

from __future__ import annotations

from celery import shared_task

from hitl_django.worker import messages

NAME = "hitl_django.perform"


# With acks_late and reject_on_worker_lost, the message of a killed worker is redelivered
# immediately, instead of by the sweep. Duplicate messages are harmless.
@shared_task(name=NAME, acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def perform(function: str, argument: str) -> None:
    """Call the function that a message names, with the message's argument."""
    messages.perform(function, argument)
