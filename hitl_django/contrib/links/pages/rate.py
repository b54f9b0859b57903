"""The rate limit of the public pages."""

from __future__ import annotations

import hashlib
import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from hitl_django.api.throttles import count_calls
from hitl_django.conf import Rate, hitl


def is_too_often(request: HttpRequest, link_id: UUID | None) -> bool:
    """Count a request, and return whether it exceeds the rate limit.

    Requests with a valid link are counted by link, so visitors behind the same proxy don't block
    each other. Other requests are counted by IP address. Headers with an address are trusted only
    as far as DRF's ``NUM_PROXIES`` allows. Otherwise a client could use a new address for each
    guess.
    """
    if hitl.THROTTLE_LINK is None:
        return False
    rate = Rate.parse(hitl.THROTTLE_LINK)
    caller = _address(request) if link_id is None else str(link_id)
    key = f"hitl_django:link:{caller}:{int(time.time() // rate.seconds)}"
    return count_calls(key, rate.seconds) > rate.count


def _address(request: HttpRequest) -> str:
    rest_request: Any = request
    known = api_settings.NUM_PROXIES is not None
    found = BaseThrottle().get_ident(rest_request) if known else request.META.get("REMOTE_ADDR")
    return hashlib.sha256(str(found).encode()).hexdigest()[:32]
