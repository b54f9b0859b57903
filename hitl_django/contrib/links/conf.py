"""Settings of review links."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.conf.kinds import rate, setting


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of review links."""

    THROTTLE_LINK: str | None = setting(
        "120/min",
        "Rate limit per review link, and per IP address for invalid links. None: unlimited.",
        rate,
    )
