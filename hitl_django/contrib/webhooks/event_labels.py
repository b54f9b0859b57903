"""Labels of events, and of deliveries without an event, such as test deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from hitl_django import events

#: Name of a test delivery.
TEST = "webhook.test"

#: Labels of deliveries without an event, by name.
_messages: dict[str, str | Promise] = {TEST: _("test event")}


def add_labels(labels: Mapping[str, str | Promise]) -> None:
    """Add labels of deliveries without an event, by the delivery's name."""
    _messages.update(labels)


def list_labels() -> dict[str, Any]:
    """Return the labels of all events, and of deliveries without an event, by name."""
    return {**events.list_labels(), **_messages}


def list_choices() -> list[tuple[str, Any]]:
    """Return the labels of ``list_labels`` as choices of a form field."""
    return [*list_labels().items()]
