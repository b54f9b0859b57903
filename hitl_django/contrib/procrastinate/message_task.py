"""Procrastinate job that carries a message."""

from __future__ import annotations

from procrastinate.contrib.django import app

from hitl_django.worker import messages

NAME = "hitl_django.perform"

messages.drain_on_sigterm()


@app.task(name=NAME)
def perform(function: str, argument: str) -> None:
    """Call the function that a message names, with the message's argument."""
    messages.perform(function, argument)
