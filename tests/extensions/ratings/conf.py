"""Settings of the app."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.conf.kinds import count, setting


@dataclass(frozen=True)
class RatingSettings:
    RATING_MAX_STARS: int = setting(5, "The most stars of a rating.", count)
