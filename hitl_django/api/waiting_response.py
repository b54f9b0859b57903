"""Responses that wait for a run, an interrupt or an event, with limits on time and number.

Each wait is implemented as steps: bytes to send and seconds to wait. Under WSGI, one OS thread per
response executes the steps. Under ASGI, the event loop waits, and a single OS thread with one
connection executes the database queries of all responses. The OS thread that Django assigned to the
request is idle meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, StreamingHttpResponse
from rest_framework.response import Response

from hitl_django.conf import hitl, limit_for_user

from .renderers import PlainJSONRenderer

#: Maximum duration of a stream under ASGI in seconds. Afterwards, the client reconnects and
#: authenticates again.
MAX_STREAM_SECONDS = 600

Found = TypeVar("Found")
Steps = Generator[bytes | float]


def wait_for(
    find: Callable[[], Found],
    is_there: Callable[[Found], Any],
    seconds: float,
    render: Callable[[Found], bytes],
) -> Steps:
    """Poll with ``find`` until ``is_there`` accepts the found object, then send the object.

    ``render`` encodes the object. After ``seconds``, the object is sent even if it isn't accepted.
    """
    ends = time.monotonic() + seconds
    found = find()
    while not is_there(found) and time.monotonic() < ends:
        yield hitl.EVENT_POLL_SECONDS
        found = find()
    yield render(found)


class WaitSlots:
    """Limits on the number of waiting responses in this process, in total and per user.

    A waiting response uses a slot until the response is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[Any] = Counter()

    @property
    def count(self) -> int:
        """The number of slots in use."""
        return self._held.total()

    def acquire(self, user: Any, most: int) -> bool:
        """Acquire a slot for a user, and return whether a slot was available.

        ``most`` is the maximum number of slots in use by all users.
        """
        with self._lock:
            if self.count >= most or self._held[user] >= limit_for_user(most):
                return False
            self._held[user] += 1
            return True

    def release(self, user: Any) -> bool:
        """Release a user's slot.

        Returns True if no user has a slot any more.
        """
        with self._lock:
            self._held[user] -= 1
            self._held += Counter()  # Remove users without slots.
            return not self._held


_threads, _streams = WaitSlots(), WaitSlots()
_reading = ThreadPoolExecutor(1, "hitl-events")


class WaitingResponse(StreamingHttpResponse):
    """A streaming response whose content is produced step by step.

    Closing the response releases its slot of ``WaitSlots``. If the client has disconnected before
    the last step, ``on_disconnect`` is called first.
    """

    def __init__(
        self,
        steps: Steps,
        request: HttpRequest,
        on_disconnect: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        on_loop = isinstance(request, ASGIRequest)
        super().__init__(
            _iterate_on_loop(steps) if on_loop else _iterate_in_thread(steps), **options
        )
        self._user = request.user.pk
        self._slots: WaitSlots | None = _streams if on_loop else _threads
        self._steps, self._on_disconnect = steps, on_disconnect

    def close(self) -> None:
        super().close()
        on_disconnect, self._on_disconnect = self._on_disconnect, None
        if on_disconnect is not None and getgeneratorstate(self._steps) != GEN_CLOSED:
            on_disconnect()
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
    on_disconnect: Callable[[], None] | None = None,
) -> StreamingHttpResponse | Response:
    """Return a response that waits for an object and then sends the object once.

    The response waits until ``is_there`` accepts the object that ``find`` returns, at most
    ``seconds``. ``show`` serializes the object. The status and the headers are those of ``now``. If
    no slot of ``WaitSlots`` is available, the result is ``now`` itself, with a Retry-After header.
    ``on_disconnect`` is called if the client disconnects before the object is sent.
    """

    def render(found: Found) -> bytes:
        rendered: bytes = PlainJSONRenderer().render(show(found))
        return rendered

    def steps(most: float) -> Steps:
        return wait_for(find, is_there, most, render)

    media = PlainJSONRenderer.media_type
    waiting = open_response(request, steps, seconds, media, on_disconnect)
    if waiting is None:
        now.headers["Retry-After"] = "1"
        return now
    waiting.status_code = now.status_code
    for name, value in now.headers.items():
        waiting.headers.setdefault(name, value)
    return waiting


def open_response(
    request: HttpRequest,
    steps: Callable[[float], Steps],
    seconds: float | None,
    media: str,
    on_disconnect: Callable[[], None] | None = None,
) -> WaitingResponse | None:
    """Return a response that executes ``steps`` for at most ``seconds``.

    ``steps`` is called with the maximum duration in seconds, and yields bytes to send and seconds
    to wait. ``media`` is the media type of the content. If ``seconds`` is None, only the server's
    limit on the duration applies. The response uses a slot of ``WaitSlots`` until the response is
    closed. Return None if no slot is available.
    """
    if not _acquire_slot(request):
        return None
    on_loop = isinstance(request, ASGIRequest)
    most = MAX_STREAM_SECONDS if on_loop and seconds is None else hitl.EVENT_WAIT_SECONDS
    if on_loop:
        # From here on, the request's own OS thread is idle and needs no database connection.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
    made = steps(most if seconds is None else min(seconds, most))
    return WaitingResponse(made, request, on_disconnect, content_type=media)


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
        # The connection may be broken. The next step opens a new connection.
        connections.close_all()
        raise
