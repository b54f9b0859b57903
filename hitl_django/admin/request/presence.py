"""Who looks at a question at this moment, as far as the site's cache knows.

It is a courtesy and no lock: a claim is what keeps two people from one question. What is lost with
the cache, or in a race of two looks, is there again with the next look.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.cache import cache

from hitl_django.audit import label_user

#: Seconds that somebody counts as looking after their page last said so.
SEEN_SECONDS = 30
#: More people than this are not remembered of one question.
MOST = 20


def note_viewer(interrupt: Any, user: Any) -> list[str]:
    """Note that the user looks at a question; returns the names of the others who do."""
    key, now = f"hitl.viewers.{interrupt}", time.time()
    found: dict[str, tuple[str, float]] = cache.get(key) or {}
    others = {who: seen for who, seen in found.items() if seen[1] > now and who != str(user.pk)}
    own = {str(user.pk): (label_user(user), now + SEEN_SECONDS)}
    cache.set(key, {**own, **dict([*others.items()][: MOST - 1])}, SEEN_SECONDS)
    return sorted(label for label, _until in others.values())
