"""A page of the questions as server-sent events: the whole of it, and then what changes of it.

Nothing is stored for who watches. What has changed is told by comparing what is shown now with
what was shown before, so that whatever changes a question, or who may see it, is noticed. The id
of an event is the digest of all that its client then has. By that the host's cache keeps it for a
while, for a client that comes back; who comes back to a process or a cache that doesn't know it
gets the whole page.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from django.core.cache import cache

from hitl_django.conf import hitl
from hitl_django.models.fields import digest_json

from . import event_stream
from .event_stream import HEARTBEAT, RETRY, render_frame
from .waiting_response import MAX_STREAM_SECONDS, Steps

logger = logging.getLogger("hitl_django")

#: Seconds for which a client may come back: a stream may be that old, and then its client away.
KEPT_SECONDS = 2 * MAX_STREAM_SECONDS

Page = list[dict[str, Any]]
#: A digest of each question that is shown, by its id.
Rows = dict[str, str]


class QueueStream:
    """One stream of a page, from behind the event with the id ``last``; "" is from the start.

    ``read`` returns the page, ``find_states`` what became of questions that are no longer on it.
    ``renew`` looks the user's rights up anew, and says whether they have any. ``watched`` is what
    is watched, and by whom.
    """

    def __init__(
        self,
        watched: Any,
        last: str,
        *,
        read: Callable[[], Page],
        find_states: Callable[[list[str]], dict[str, str]],
        renew: Callable[[], bool],
    ) -> None:
        self.watched, self.last = digest_json(watched), last
        self.read, self.find_states, self.renew = read, find_states, renew

    def steps(self, seconds: float) -> Steps:
        """Yield frames to send and seconds to wait."""
        ends = time.monotonic() + seconds
        beat = time.monotonic() + event_stream.HEARTBEAT_SECONDS
        yield RETRY
        page = self.read()
        rows = _digest_rows(page)
        shown = self._recall(rows) if self.last else None
        while True:
            if rows != shown:
                yield self._render(page, rows, shown)
                shown = rows
            if time.monotonic() >= ends:
                return
            yield hitl.EVENT_POLL_SECONDS
            page = self.read()
            rows = _digest_rows(page)
            is_silent = time.monotonic() >= beat
            if not is_silent and rows == shown:
                continue
            # Nobody is told what they may see no longer.
            if not self.renew():
                return
            page = self.read()
            rows = _digest_rows(page)
            if is_silent:
                beat = time.monotonic() + event_stream.HEARTBEAT_SECONDS
                yield HEARTBEAT

    def _render(self, page: Page, rows: Rows, shown: Rows | None) -> bytes:
        """Return all that changed as one event, so that who is cut off has all of it or none."""
        place = digest_json(rows)
        self._keep(place, rows)
        if shown is None:
            return render_frame("reset", {"results": page}, place)
        gone = [key for key in shown if key not in rows]
        states = self.find_states(gone) if gone else {}
        changes: dict[str, Page] = {"added": [], "changed": []}
        for row in page:
            before = shown.get(row["id"])
            if before != rows[row["id"]]:
                changes["added" if before is None else "changed"].append(row)
        changes["removed"] = [{"id": key, "status": states.get(key)} for key in gone]
        return render_frame("changes", changes, place)

    def _recall(self, rows: Rows) -> Rows | None:
        """Return what the client has; None where that isn't known any more."""
        if digest_json(rows) == self.last:
            self._keep(self.last, rows)  # it may have been a while since it was
            return rows
        try:
            known: Rows | None = cache.get(self._build_key(self.last))
        except Exception:  # every cache has errors of its own
            logger.debug("could not read the client's queue snapshot", exc_info=True)
            return None
        return known

    def _keep(self, place: str, rows: Rows) -> None:
        try:
            cache.set(self._build_key(place), rows, timeout=KEPT_SECONDS)
        except Exception:
            logger.debug("could not store the client's queue snapshot", exc_info=True)

    def _build_key(self, place: str) -> str:
        return f"hitl_django:queue:{self.watched}:{place}"


def _digest_rows(page: Page) -> Rows:
    return {row["id"]: digest_json(row) for row in page}
