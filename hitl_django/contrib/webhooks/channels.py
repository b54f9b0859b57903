"""Channels: the ways to send deliveries, by name.

Each endpoint has a channel. Leases, retries, pauses and final failures work in the same way for all
channels. A channel defines the events for which deliveries are stored, and the function that sends
a delivery. An app registers its channels when it is loaded. If the app isn't installed, no
deliveries for its channels are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from django.utils.functional import Promise

from .event_labels import add_labels
from .models import Delivery, WebhookEndpoint


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt to send a delivery.

    ``status`` is the HTTP status of the response. If there was no response, ``status`` is None and
    ``fault`` is the reason. If ``ends`` is given, the delivery ends in the state ``ends``,
    independent of ``status``.
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
        list_events: returns the names of the channel's events.
        send: sends a delivery before a deadline in terms of ``time.monotonic()``.
        is_personal: whether deliveries are for the assignees of an interrupt. If true, an interrupt
            without an assignee has no delivery.
        labels: labels of deliveries without an event, such as tests, by the delivery's name.
    """

    name: str
    list_events: Callable[[], frozenset[str]]
    send: Callable[[Delivery, WebhookEndpoint, float], AttemptResult]
    is_personal: bool = False
    labels: Mapping[str, str | Promise] = field(default_factory=dict)


_channels: dict[str, Channel] = {}


def register_channel(channel: Channel) -> None:
    """Register a channel.

    A channel with the same name is replaced.
    """
    _channels[channel.name] = channel
    add_labels(channel.labels)


def find_channel(name: str) -> Channel | None:
    """Return a channel by name, or None if its app isn't installed."""
    return _channels.get(name)


def list_channels() -> Collection[Channel]:
    """Return the registered channels."""
    return _channels.values()
