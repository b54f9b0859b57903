"""Current viewers of an interrupt, stored in the cache.

This is informational and not a lock: claims prevent two people from deciding the same interrupt.
Data lost with the cache or in a race is restored by the next update request.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.cache import cache

from hitl_django.audit import label_user

#: Seconds after a page's last update request for which the user counts as a viewer.
SEEN_SECONDS = 30
#: Maximum number of viewers stored per interrupt.
MOST = 20


def note_viewer(interrupt: Any, user: Any) -> list[str]:
    """Store the user as a viewer of the interrupt, and return the names of other viewers."""
    key, now = f"hitl.viewers.{interrupt}", time.time()
    found: dict[str, tuple[str, float]] = cache.get(key) or {}
    others = {who: seen for who, seen in found.items() if seen[1] > now and who != str(user.pk)}
    own = {str(user.pk): (label_user(user), now + SEEN_SECONDS)}
    cache.set(key, {**own, **dict([*others.items()][: MOST - 1])}, SEEN_SECONDS)
    return sorted(label for label, _until in others.values())
