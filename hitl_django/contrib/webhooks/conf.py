"""Settings of webhooks and deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from hitl_django.conf.kinds import count, positive, setting


def networks(value: Any) -> None:
    """Raise ValueError if the value is not a list of IP networks in CIDR notation."""
    for network in value if isinstance(value, list | tuple) else [value]:
        try:
            if not isinstance(network, str):
                raise TypeError
            ip_network(network)
        except (TypeError, ValueError):
            raise ValueError(
                f"has {network!r}, which is not a network.",
                "Use CIDR notation, for example '10.1.0.0/16', or '127.0.0.1' for a "
                "single address.",
            ) from None


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The settings of deliveries."""

    WEBHOOK_NETWORKS: Sequence[str] = setting(
        (),
        "Private networks to which webhooks may be sent, for example '10.1.0.0/16'. In these "
        "networks, webhooks may use http.",
        networks,
    )
    WEBHOOK_TIMEOUT_SECONDS: float = setting(
        10, "Timeout for one delivery attempt (webhook or Slack).", positive
    )
    WEBHOOK_ATTEMPTS: int = setting(
        12, "Number of delivery attempts (webhook, email or Slack) before giving up.", count
    )
    DELIVERY_DAYS: float = setting(30, "Days that finished deliveries are kept.", positive)
