"""Channels: the ways to send deliveries, by name.

Each endpoint has a channel. Leases, retries, pauses and giving up are the same for all channels. A
channel names its events and sends one delivery. An app registers its channels when it is loaded.
Without the app, no delivery to them is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from django.utils.functional import Promise

from .event_labels import add_labels
from .models import Delivery, WebhookEndpoint


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt: the response status, or the reason for a missing one in ``fault``.

    ``ends`` is the final state of the delivery, whatever the status is.
    """

    status: int | None = None
    retry_after: str = ""
    fault: str = ""
    ends: Delivery.State | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the outbox.

    Attributes:
        name: the name, as stored in ``WebhookEndpoint.channel``.
        list_events: returns the names of its events.
        send: sends a delivery before a deadline in terms of ``time.monotonic()``.
        is_personal: whether it is for the assignees of an interrupt. Then an interrupt without an
            assignee has no delivery.
        labels: labels of deliveries that its app writes without an event, by name.
    """

    name: str
    list_events: Callable[[], frozenset[str]]
    send: Callable[[Delivery, WebhookEndpoint, float], AttemptResult]
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
