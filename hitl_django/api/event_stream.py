"""Server-sent events with regular heartbeats."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from hitl_django.conf import hitl
from hitl_django.services import EventPage, EventReader

from .renderers import EventStreamRenderer
from .waiting_response import Steps, open_response

#: Seconds between two heartbeats on a stream without events. Under WSGI, only a failed write shows
#: that the client has disconnected, usually the second one. Until then, the stream has its slot.
HEARTBEAT_SECONDS = 5
HEARTBEAT = b": nothing new\n\n"
#: Explains an empty stream to the person who looks at it. Clients ignore comments.
NO_SLOT = b": no free slot for a stream: see EVENT_MAX_WAITING_THREADS and EVENT_MAX_STREAMS\n\n"
#: Makes the client reconnect after this many milliseconds.
RETRY = b"retry: 1000\n\n"


def stream_events(
    reader: EventReader, after: int, seconds: float, render: Callable[[EventPage], bytes]
) -> Steps:
    """Yield server-sent events until the run ends or ``seconds`` have passed.

    The stream starts after the event with the number ``after``. ``render`` encodes a page of
    events. Each yielded value is either bytes to send, or a number of seconds to wait.
    """
    ends = time.monotonic() + seconds
    while True:
        page = reader.read(after)
        if page.events:
            yield render(page)
        after = page.last
        if page.ended or time.monotonic() >= ends:
            return
        beat = time.monotonic() + HEARTBEAT_SECONDS
        while not reader.has_news(after):
            if time.monotonic() >= ends:
                return
            if time.monotonic() >= beat:
                beat = time.monotonic() + HEARTBEAT_SECONDS
                yield HEARTBEAT
            yield hitl.EVENT_POLL_SECONDS


def render_frame(name: str, data: Any, place: int | str | None = None) -> bytes:
    """Return one server-sent event.

    ``place`` is the event's id, which a client sends when it reconnects.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    first = "" if place is None else f"id: {place}\n"
    return f"{first}event: {name}\ndata: {text}\n\n".encode()


def stream_response(
    request: HttpRequest,
    steps: Callable[[float], Steps],
    on_disconnect: Callable[[], None] | None = None,
) -> StreamingHttpResponse | HttpResponse:
    """Return a stream of events.

    If the server can't open another stream now, return a complete response with the available
    events. ``steps`` is called with the maximum duration in seconds, and yields the events of this
    period. ``on_disconnect`` is called if the client disconnects before the end of the stream.
    """
    media = EventStreamRenderer.media_type
    made: StreamingHttpResponse | HttpResponse | None = open_response(
        request, steps, None, media, on_disconnect
    )
    if made is None:
        frames = [step for step in steps(0) if isinstance(step, bytes)]
        made = HttpResponse(b"".join([*frames, NO_SLOT]), content_type=media)
    # Ask middleware and proxies not to buffer the response, because buffering delays the events.
    # Django's GZipMiddleware and nginx would buffer it.
    made["Content-Encoding"], made["X-Accel-Buffering"] = "identity", "no"
    return made
