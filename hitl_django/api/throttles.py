"""Rate limits per user for reading, starting runs and deciding.

Calls are counted in fixed windows in the default cache, so a request costs two small cache
operations. If each process has its own cache, each process counts separately. Without a working
cache, requests are not limited.
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
    """Rate limit of an operation per user.

    The rate is a HITL setting.
    """

    def __init__(self, setting: str) -> None:
        self.setting = setting
        self.left = 0.0
        self._rate: Rate | None = None
        self._calls = 0

    def allow_request(self, request: Any, view: Any) -> bool:
        return self._allows(request, 1)

    def allows_more(self, request: Any, times: int) -> bool:
        """Return whether a request may make ``times`` more calls, and count these calls.

        The request itself has already been counted as one call. At most as many calls as the limit
        are counted for one request. A request with more calls than the limit is therefore allowed
        if it is the only request in the window.
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
        """Return the RateLimit headers, or an empty dict without a rate limit or a working cache.

        The headers follow the IETF draft "RateLimit header fields for HTTP", version 8 and later.
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
    """Count ``times`` calls, and return the number of calls in the window of ``seconds``.

    The result is 0 if the number is unknown, because the cache doesn't work.
    """
    try:
        cache.add(key, 0, timeout=2 * seconds)
        return int(cache.incr(key, times))
    except Exception:  # Cache backends raise various errors.
        # A DummyCache never contains the key. An unreachable cache must not prevent decisions.
        logger.debug("could not count a request for throttling", exc_info=True)
        return 0
