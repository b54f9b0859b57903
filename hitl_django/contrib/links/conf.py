"""The keys of HITL that this app has, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.conf.kinds import rate, setting


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of review links."""

    THROTTLE_LINK: str | None = setting(
        "120/min",
        "How often one review link, or from one address what is none, may be called; None: as "
        "often as one likes.",
        rate,
    )
