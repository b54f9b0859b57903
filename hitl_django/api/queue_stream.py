"""Server-sent events with a page of interrupts and its changes.

The server stores no state per client. The stream finds changes by comparing the current page with
the previous page. This comparison detects any change of an interrupt or of permissions. The id of
an event is the digest of the page after the event. The project's cache stores the page under this
digest for clients that reconnect. If the cache doesn't contain the page, the client receives the
whole current page.
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

#: Seconds within which a client can reconnect: the maximum duration of a stream, plus an absence of
#: the same duration.
KEPT_SECONDS = 2 * MAX_STREAM_SECONDS
#: Seconds between two checks of the permissions on a stream without events.
PERMISSION_SECONDS = 15

Page = list[dict[str, Any]]
#: Digests of the interrupts on the page, by id.
Rows = dict[str, str]


class QueueStream:
    """Stream of one page of interrupts, starting after the event with the id ``last``.

    An empty ``last`` starts a new stream. ``read`` returns the page. ``find_states`` returns the
    statuses of interrupts that left the page. ``renew`` reloads the user's permissions and returns
    whether the stream may continue. ``watched`` is a JSON value with the user's id and the query
    parameters. It is part of the keys of cached pages.
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
        """Yield the events to send, and the numbers of seconds to wait between events."""
        ends = time.monotonic() + seconds
        beat = time.monotonic() + event_stream.HEARTBEAT_SECONDS
        check = time.monotonic() + PERMISSION_SECONDS
        yield RETRY
        page = self.read()
        rows = _digest_rows(page)
        shown = self._find_shown(rows) if self.last else None
        while True:
            if rows != shown:
                yield self._render(page, rows, shown)
                shown = rows
            if time.monotonic() >= ends:
                return
            yield hitl.EVENT_POLL_SECONDS
            page = self.read()
            rows = _digest_rows(page)
            now = time.monotonic()
            # Check the permissions before sending, because the user may have lost them.
            if rows != shown or now >= check:
                if not self.renew():
                    return
                check = now + PERMISSION_SECONDS
                page = self.read()
                rows = _digest_rows(page)
            if now >= beat:
                beat = now + event_stream.HEARTBEAT_SECONDS
                yield HEARTBEAT

    def _render(self, page: Page, rows: Rows, shown: Rows | None) -> bytes:
        """Return all changes as one event, so that a client never receives only some of them.

        ``rows`` is the current page. ``shown`` is the page that the client has, or None if unknown.
        """
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

    def _find_shown(self, rows: Rows) -> Rows | None:
        """Return the rows that the client has after the event with the id ``self.last``.

        If the current ``rows`` have this id, the client has these rows. Otherwise, the rows are
        read from the cache. Returns None if the cache doesn't contain them.
        """
        if digest_json(rows) == self.last:
            self._keep(self.last, rows)  # Restart the page's timeout in the cache.
            return rows
        try:
            known: Rows | None = cache.get(self._build_key(self.last))
        except Exception:  # Cache backends raise various errors.
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
