"""Throttles: how often a user may read, start and decide, so that a client in a loop harms little.

Counted in the host's cache, in windows of a whole period, so that a request costs two small
operations there and no list of moments. With a cache of each process its own, each process has a
count of its own; without a cache, or while it is away, nobody is held up.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from django.core.cache import cache
from rest_framework.throttling import BaseThrottle

from hitl_django.conf import Rate, hitl

logger = logging.getLogger("hitl_django")


class UserThrottle(BaseThrottle):
    """Bounds what one user asks of an operation, by the rate that a HITL setting names."""

    def __init__(self, setting: str) -> None:
        self.setting = setting
        self.left = 0.0
        self._rate: Rate | None = None
        self._calls = 0

    def allow_request(self, request: Any, view: Any) -> bool:
        return self._allows(request, 1)

    def allows_more(self, request: Any, times: int) -> bool:
        """Count so many more of a request that was counted as one.

        Where that is more than the rate in all, it is the whole of the rate: once in a while.
        """
        return self._allows(request, times, beside=1)

    def _allows(self, request: Any, times: int, beside: int = 0) -> bool:
        text = getattr(hitl, self.setting)
        if text is None:
            return True
        rate = Rate.parse(text)
        times = min(times, rate.count - beside)
        now = time.time()
        self.left = rate.seconds - now % rate.seconds
        key = f"hitl_django:{self.setting}:{request.user.pk}:{int(now // rate.seconds)}"
        self._rate, self._calls = rate, count_calls(key, rate.seconds, times)
        return self._calls <= rate.count

    def wait(self) -> float:
        return self.left

    def build_headers(self) -> dict[str, str]:
        """Return how often the user may still ask, and when anew; nothing where nobody counts.

        As in the IETF's draft "RateLimit header fields for HTTP", from its eighth version on.
        """
        if self._rate is None or not self._calls:
            return {}
        name = self.setting.removeprefix("THROTTLE_").lower()
        left = max(0, self._rate.count - self._calls)
        return {
            "RateLimit-Policy": f'"{name}";q={self._rate.count};w={self._rate.seconds}',
            "RateLimit": f'"{name}";r={left};t={math.ceil(self.left)}',
        }


def count_calls(key: str, seconds: int, times: int = 1) -> int:
    """Count more of these within so many seconds; returns how many there were, 0 unknown."""
    try:
        cache.add(key, 0, timeout=2 * seconds)
        return int(cache.incr(key, times))
    except Exception:  # every cache has errors of its own
        # A DummyCache has no such key, ever; a server that is away is the host's to notice, and
        # no reason to keep people from deciding.
        logger.debug("could not count a request for throttling", exc_info=True)
        return 0
