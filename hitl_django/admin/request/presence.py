"""Current viewers of an interrupt, stored in the cache.

The list of viewers is for information only. A claim prevents two people from deciding the same
interrupt. If the cache loses a viewer, the next update request stores the viewer again.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.cache import cache

from hitl_django.audit import label_user

#: Number of seconds for which a person counts as a viewer after the page's last update request.
SEEN_SECONDS = 30
#: Maximum number of viewers stored per interrupt.
MOST = 20


def note_viewer(interrupt: Any, user: Any) -> list[str]:
    """Store the user as a viewer of the interrupt.

    Returns the names of the other viewers.
    """
    key, now = f"hitl.viewers.{interrupt}", time.time()
    found: dict[str, tuple[str, float]] = cache.get(key) or {}
    others = {who: seen for who, seen in found.items() if seen[1] > now and who != str(user.pk)}
    own = {str(user.pk): (label_user(user), now + SEEN_SECONDS)}
    cache.set(key, {**own, **dict([*others.items()][: MOST - 1])}, SEEN_SECONDS)
    return sorted(label for label, _until in others.values())
