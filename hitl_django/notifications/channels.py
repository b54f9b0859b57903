"""Channels: the ways in which the outbox's messages reach somebody, by name.

Each endpoint is reached through one of them. Claims, retries, rests and giving up are the same for
all; a channel says which events it is for and sends one message. Webhooks are always there; an app
in ``contrib/`` registers its own when it is loaded, so that a project without it writes no message
that nobody could send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hitl_django.models import Delivery, WebhookEndpoint


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
    """A channel: the events it is for, and what sends a message until a moment of ``monotonic()``.

    ``sweep`` does what is due by the clock. A channel that ``is_personal`` tells the people whom a
    question is for, and has nothing to say of one that is for nobody in particular.
    """

    name: str
    events: frozenset[str]
    send: Callable[[Delivery, WebhookEndpoint, float], Answer]
    sweep: Callable[[], object] | None = None
    is_personal: bool = False


_channels: dict[str, Channel] = {}


def register_channel(channel: Channel) -> None:
    """Makes a channel known to this process; one of the same name gives way."""
    _channels[channel.name] = channel


def find_channel(name: str) -> Channel | None:
    """Returns a channel; None where the app that brings it isn't installed."""
    return _channels.get(name)


def list_channels() -> Collection[Channel]:
    """Returns the channels that this process knows."""
    return _channels.values()


def sweep_channels() -> None:
    """Has every channel do what is due by the clock."""
    for channel in list_channels():
        if channel.sweep is not None:
            channel.sweep()
