"""The task as which a message travels."""

from __future__ import annotations

from hitl_django.worker import messages

from .framework import task


@task
def perform(function: str, argument: str) -> None:
    """Call what the message names."""
    messages.perform(function, argument)
