"""How often one address may call: a bound on guessing, and on who presses reload all day."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

from hitl_django.api.throttles import count
from hitl_django.conf import Rate, hitl


def is_too_often(request: HttpRequest) -> bool:
    """Counts a call, and says whether it is one too many.

    Behind proxies DRF's ``NUM_PROXIES`` says whose address it is.
    """
    if hitl.THROTTLE_LINK is None:
        return False
    rate = Rate.of(hitl.THROTTLE_LINK)
    asked: Any = request
    caller = hashlib.sha256(str(BaseThrottle().get_ident(asked)).encode()).hexdigest()[:32]
    key = f"hitl_django:link:{caller}:{int(time.time() // rate.seconds)}"
    return count(key, rate.seconds) > rate.count
