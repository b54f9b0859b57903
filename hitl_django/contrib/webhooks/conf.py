"""The keys of HITL that this app has, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from hitl_django.conf.kinds import count, positive, setting


def networks(value: Any) -> None:
    """Check for a list of networks."""
    for network in value if isinstance(value, list | tuple) else [value]:
        try:
            if not isinstance(network, str):
                raise TypeError
            ip_network(network)
        except (TypeError, ValueError):
            raise ValueError(
                f"has {network!r}, which is not a network.",
                "Write it as '10.1.0.0/16', or '127.0.0.1' for a single address.",
            ) from None


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The settings of deliveries."""

    WEBHOOK_NETWORKS: Sequence[str] = setting(
        (),
        "Private networks, such as '10.1.0.0/16', that webhooks may be sent to, by plain http too.",
        networks,
    )
    WEBHOOK_TIMEOUT_SECONDS: float = setting(
        10, "How long one attempt at a webhook, or a message to Slack, may take in all.", positive
    )
    WEBHOOK_ATTEMPTS: int = setting(
        12, "Attempts at a webhook, a mail or a message to Slack before it is given up.", count
    )
    DELIVERY_DAYS: float = setting(
        30, "Days that messages of all these are kept which came to their end.", positive
    )
