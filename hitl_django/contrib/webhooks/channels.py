"""Channels: the ways in which the outbox's messages are sent, by name.

Each endpoint has one of them. Claims, retries, rests and giving up are the same for all; a channel
names its events and sends one message. Another app registers its own when it is loaded, so that a
project without the app writes no message that nobody could send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from django.utils.functional import Promise

from .event_labels import add_labels
from .models import Delivery, WebhookEndpoint


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an attempt: a status, or in ``fault`` why there is none.

    ``ends`` is the state that the message comes to whatever the status is.
    """

    status: int | None = None
    retry_after: str = ""
    fault: str = ""
    ends: Delivery.State | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the outbox.

    Attributes:
        name: its name, in the column of the endpoints.
        list_events: returns the names of the events that it is for.
        send: sends a message until a moment of ``time.monotonic()``.
        is_personal: whether it is for the people to whom an interrupt is assigned, so that there is
            no message about one that is assigned to nobody.
        labels: messages that its app writes without an event, each name with its label.
    """

    name: str
    list_events: Callable[[], frozenset[str]]
    send: Callable[[Delivery, WebhookEndpoint, float], Answer]
    is_personal: bool = False
    labels: Mapping[str, str | Promise] = field(default_factory=dict)


_channels: dict[str, Channel] = {}


def register_channel(channel: Channel) -> None:
    """Register a channel; a second one with the same name replaces the first."""
    _channels[channel.name] = channel
    add_labels(channel.labels)


def find_channel(name: str) -> Channel | None:
    """Return a channel, or None if its app is not installed."""
    return _channels.get(name)


def list_channels() -> Collection[Channel]:
    """Return the registered channels."""
    return _channels.values()
