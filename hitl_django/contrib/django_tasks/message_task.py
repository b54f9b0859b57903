"""Task that carries a message."""

from __future__ import annotations

from hitl_django.worker import messages

from .framework import task


@task
def perform(function: str, argument: str) -> None:
    """Call the function that a message names, with the message's argument."""
    messages.perform(function, argument)
