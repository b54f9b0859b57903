"""Labels of the events and other messages that deliveries are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from hitl_django import events

#: The name of a test message.
TEST = "webhook.test"

#: Messages that are about no event, by name.
_messages: dict[str, str | Promise] = {TEST: _("test event")}


def add_labels(labels: Mapping[str, str | Promise]) -> None:
    """Add messages that a channel writes itself, each name with its label."""
    _messages.update(labels)


def list_labels() -> dict[str, Any]:
    """Return the events and other messages by name, each with its label."""
    return {**events.list_labels(), **_messages}


def list_choices() -> list[tuple[str, Any]]:
    """List the same as the choices of a field."""
    return [*list_labels().items()]
