"""Long polling of runs and questions, and server-sent events, bounded in time and number.

What to look for, what to send and how long to pause is written once, as steps: bytes to send and
seconds to wait. A WSGI server has a thread for each answer, which performs them. Under ASGI the
event loop waits, and what the steps ask the database is done by one thread, on one connection, for
all; the thread that Django itself keeps for each open request does nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from hitl_django.conf import hitl, limit_for_user
from hitl_django.models import Run
from hitl_django.services import EventPage, EventReader
from hitl_django.services.runs.event_stream import AT_REST

#: Seconds between two signs of life on a stream that has no event.
HEARTBEAT_SECONDS = 15
#: Seconds after which a stream ends that holds no thread: its client comes back, and signs in anew.
MAX_STREAM_SECONDS = 600
#: Tells a client of a stream after how many milliseconds to come back.
RETRY = b"retry: 1000\n\n"

Steps = Iterator[bytes | float]
Render = Callable[[EventPage], bytes]


def wait_for_page(
    reader: EventReader, after: int, limit: int, seconds: float, render: Render
) -> Steps:
    """Waits for events, at most so long, and sends them as one page."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not reader.has_news(after):
        yield hitl.EVENT_POLL_SECONDS
    yield render(reader.read(after, limit))


def wait_for_end(reader: EventReader, seconds: float, render: Render) -> Steps:
    """Waits until a run is over, at most so long, and sends what is rendered of its last page."""
    ends = time.monotonic() + seconds
    page = reader.read(0)
    while not page.ended and time.monotonic() < ends:
        if not page.events and not reader.has_news(page.last):
            yield hitl.EVENT_POLL_SECONDS
        page = reader.read(page.last)
    yield render(page)


def wait_for_rest(
    run: Run, find: Callable[[], Run | None], seconds: float, render: Callable[[Run], bytes]
) -> Steps:
    """Waits until nothing comes of a run by itself any more, at most so long, and sends it."""
    ends = time.monotonic() + seconds
    while run.state not in AT_REST and time.monotonic() < ends:
        yield hitl.EVENT_POLL_SECONDS
        run = find() or run  # which was deleted, or hidden, since it was started
    yield render(run)


def wait_for_rows(
    find: Callable[[], dict[str, Any]], seconds: float, render: Callable[[Any], bytes]
) -> Steps:
    """Waits until a page of a list has something, at most so long, and sends it."""
    ends = time.monotonic() + seconds
    page = find()
    while not page["results"] and time.monotonic() < ends:
        yield hitl.EVENT_POLL_SECONDS
        page = find()
    yield render(page)


def stream_events(reader: EventReader, after: int, seconds: float, render: Render) -> Steps:
    """Sends what comes as server-sent events, until the run or the time has ended."""
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
                yield b": nothing new\n\n"
            yield hitl.EVENT_POLL_SECONDS


class WaitSlots:
    """The responses of this process that wait at a time, counted by user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[Any] = Counter()

    @property
    def count(self) -> int:
        """How many wait."""
        return self._held.total()

    def acquire(self, user: Any, most: int) -> bool:
        """Takes a slot for a user; False where there is none left, or none for this one."""
        with self._lock:
            if self.count >= most or self._held[user] >= limit_for_user(most):
                return False
            self._held[user] += 1
            return True

    def release(self, user: Any) -> bool:
        """Gives a user's slot back; True where it was the last one taken."""
        with self._lock:
            self._held[user] -= 1
            self._held += Counter()  # keeps nobody who has none
            return not self._held


_threads, _streams = WaitSlots(), WaitSlots()
_reading = ThreadPoolExecutor(1, "hitl-events")


class WaitingResponse(StreamingHttpResponse):
    """A response made of steps, which gives its slot back when it is over."""

    def __init__(self, steps: Steps, request: HttpRequest, **options: Any) -> None:
        on_loop = isinstance(request, ASGIRequest)
        super().__init__(
            _iterate_on_loop(steps) if on_loop else _iterate_in_thread(steps), **options
        )
        self._user = request.user.pk
        self._slots: WaitSlots | None = _streams if on_loop else _threads

    def close(self) -> None:
        super().close()
        slots, self._slots = self._slots, None
        if slots is not None and slots.release(self._user) and slots is _streams:
            _reading.submit(connections.close_all)


def acquire_slot(request: HttpRequest) -> bool:
    """Takes a slot for a response that waits; False where it has to be sent at once.

    A process that serves one request at a time would serve no other meanwhile, so it never waits.
    """
    user = request.user.pk
    if isinstance(request, ASGIRequest):
        return _streams.acquire(user, hitl.EVENT_STREAMS)
    is_threaded = bool(request.META.get("wsgi.multithread"))
    return is_threaded and _threads.acquire(user, hitl.EVENT_WAITERS)


def build_response(
    request: HttpRequest,
    steps: Callable[[float], Steps],
    seconds: float | None,
    media: str,
    status: int = 200,
) -> WaitingResponse:
    """Returns a response that waits so long at most, or as long as its kind may.

    Its slot has to have been acquired; it is released when the response is closed.
    """
    on_loop = isinstance(request, ASGIRequest)
    most = MAX_STREAM_SECONDS if on_loop and seconds is None else hitl.EVENT_WAIT_SECONDS
    if on_loop:
        # The request's own thread idles from here on, and needs no connection for that.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
    made = steps(most if seconds is None else min(seconds, most))
    return WaitingResponse(made, request, content_type=media, status=status)


def stream_response(
    request: HttpRequest, steps: Callable[[float], Steps], media: str
) -> StreamingHttpResponse | HttpResponse:
    """Returns a stream of events; where none can be held open now, what there is of it."""
    made: StreamingHttpResponse | HttpResponse
    if acquire_slot(request):
        made = build_response(request, steps, None, media)
    else:
        frames = [step for step in steps(0) if isinstance(step, bytes)]
        made = HttpResponse(b"".join(frames), content_type=media)
    # What gathers bytes before it passes them on, to pack them or to send fewer packets, would hold
    # back events: Django's GZipMiddleware, and nginx.
    made["Content-Encoding"], made["X-Accel-Buffering"] = "identity", "no"
    return made


def _iterate_in_thread(steps: Steps) -> Iterator[bytes]:
    for step in steps:
        if isinstance(step, bytes):
            yield step
        else:
            time.sleep(step)


async def _iterate_on_loop(steps: Steps) -> AsyncIterator[bytes]:
    take = partial(asyncio.get_running_loop().run_in_executor, _reading, _step, steps)
    while (step := await take()) is not None:
        if isinstance(step, bytes):
            yield step
        else:
            await asyncio.sleep(step)


def _step(steps: Steps) -> bytes | float | None:
    try:
        return next(steps, None)
    except Exception:
        connections.close_all()  # whatever is wrong with this one, the next has another
        raise
