"""Responses that wait for a run, an interrupt or an event, limited in time and number.

Each wait is written once, as steps: bytes to send and seconds to wait. Under WSGI, an OS thread per
response executes the steps. Under ASGI, the event loop waits, and a single OS thread with one
connection runs the database queries of all responses. The OS thread that Django keeps per open
request is idle meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, StreamingHttpResponse
from rest_framework.response import Response

from hitl_django.conf import hitl, limit_for_user

from .renderers import PlainJSONRenderer

#: Maximum duration of a stream under ASGI. The client then reconnects and signs in again.
MAX_STREAM_SECONDS = 600

Found = TypeVar("Found")
Steps = Iterator[bytes | float]


def wait_for(
    find: Callable[[], Found],
    is_there: Callable[[Found], Any],
    seconds: float,
    render: Callable[[Found], bytes],
) -> Steps:
    """Poll until ``is_there`` accepts the object or the time is over, then send the object."""
    ends = time.monotonic() + seconds
    found = find()
    while not is_there(found) and time.monotonic() < ends:
        yield hitl.EVENT_POLL_SECONDS
        found = find()
    yield render(found)


class WaitSlots:
    """Limited slots for waiting responses of this process, counted by user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[Any] = Counter()

    @property
    def count(self) -> int:
        """The number of slots in use."""
        return self._held.total()

    def acquire(self, user: Any, most: int) -> bool:
        """Acquire a slot for a user; False if all slots, or all of this user's, are in use."""
        with self._lock:
            if self.count >= most or self._held[user] >= limit_for_user(most):
                return False
            self._held[user] += 1
            return True

    def release(self, user: Any) -> bool:
        """Release a user's slot; True if it was the last one in use."""
        with self._lock:
            self._held[user] -= 1
            self._held += Counter()  # removes users without slots
            return not self._held


_threads, _streams = WaitSlots(), WaitSlots()
_reading = ThreadPoolExecutor(1, "hitl-events")


class WaitingResponse(StreamingHttpResponse):
    """Response made of steps, which releases its slot when it is closed."""

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


def answer_once(
    request: HttpRequest,
    now: Response,
    seconds: float | None,
    find: Callable[[], Found],
    is_there: Callable[[Found], Any],
    show: Callable[[Found], Any],
) -> StreamingHttpResponse | Response:
    """Return a response that waits for the found object, with the status and headers of ``now``.

    If waiting is not possible, returns ``now``; a Retry-After header delays the next request.
    """

    def render(found: Found) -> bytes:
        rendered: bytes = PlainJSONRenderer().render(show(found))
        return rendered

    def steps(most: float) -> Steps:
        return wait_for(find, is_there, most, render)

    waiting = open_response(request, steps, seconds, PlainJSONRenderer.media_type)
    if waiting is None:
        now.headers["Retry-After"] = "1"
        return now
    waiting.status_code = now.status_code
    for name, value in now.headers.items():
        waiting.headers.setdefault(name, value)
    return waiting


def open_response(
    request: HttpRequest, steps: Callable[[float], Steps], seconds: float | None, media: str
) -> WaitingResponse | None:
    """Return a response that waits at most ``seconds``, or the maximum of its kind.

    Returns None if no slot is available. The slot is released when the response is closed.
    """
    if not _acquire_slot(request):
        return None
    on_loop = isinstance(request, ASGIRequest)
    most = MAX_STREAM_SECONDS if on_loop and seconds is None else hitl.EVENT_WAIT_SECONDS
    if on_loop:
        # The request's own OS thread is idle from here on and needs no connection.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
    made = steps(most if seconds is None else min(seconds, most))
    return WaitingResponse(made, request, content_type=media)


def _acquire_slot(request: HttpRequest) -> bool:
    # A process that serves one request at a time must never wait.
    user = request.user.pk
    if isinstance(request, ASGIRequest):
        return _streams.acquire(user, hitl.EVENT_MAX_STREAMS)
    is_threaded = bool(request.META.get("wsgi.multithread"))
    return is_threaded and _threads.acquire(user, hitl.EVENT_MAX_WAITING_THREADS)


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
        connections.close_all()  # the connection may be broken, and the next step opens a new one
        raise
