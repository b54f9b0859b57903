"""Rate limit for pages without login."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from django.http import HttpRequest
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from hitl_django.api.throttles import count_calls
from hitl_django.conf import Rate


def is_too_often(request: HttpRequest, page: str, limit: str | None, link: str = "") -> bool:
    """Count a request of a page, and return whether the request exceeds the rate limit.

    Requests with a valid link are counted by ``link``, the id of the link, so visitors behind the
    same proxy don't block each other. Requests without a valid link are counted by IP address. The
    header ``X-Forwarded-For`` is used only if DRF's setting ``NUM_PROXIES`` is set. Without this
    restriction, a client that guesses tokens could send a different address in each request.
    """
    if limit is None:
        return False
    rate = Rate.parse(limit)
    key = f"hitl_django:{page}:{link or _address(request)}:{int(time.time() // rate.seconds)}"
    return count_calls(key, rate.seconds) > rate.count


def _address(request: HttpRequest) -> str:
    rest_request: Any = request
    known = api_settings.NUM_PROXIES is not None
    found = BaseThrottle().get_ident(rest_request) if known else request.META.get("REMOTE_ADDR")
    return hashlib.sha256(str(found).encode()).hexdigest()[:32]
