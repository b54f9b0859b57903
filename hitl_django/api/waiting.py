"""Answers that wait for what a run has yet to tell, in bounded time and number.

What to look for, what to say and how long to pause is written once, as steps: bytes to send and
seconds to wait. A WSGI server has a thread for each answer, which performs them. Under ASGI the
event loop waits, and what the steps ask the database is done by one thread, on one connection, for
all; the thread that Django itself keeps for each open request does nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, StreamingHttpResponse

from ..conf import hitl
from ..services import EventPage, EventReader

#: Seconds between two signs of life on a stream that has nothing to tell.
HEARTBEAT = 15
#: Seconds after which a stream ends that holds no thread: its client comes back, and signs in anew.
LONGEST = 600
#: Milliseconds after which a client of a stream comes back.
RETRY = 1000

Steps = Iterator[bytes | float]
Render = Callable[[EventPage], bytes]


def one_page(reader: EventReader, after: int, limit: int, seconds: float, render: Render) -> Steps:
    """Waits for something to tell, at most so long, and sends it as one page."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not reader.has_news(after):
        yield hitl.EVENT_POLL_SECONDS
    yield render(reader.read(after, limit))


def stream(reader: EventReader, after: int, seconds: float, render: Render) -> Steps:
    """Sends what comes as server-sent events, until the run or the time has ended."""
    ends = time.monotonic() + seconds
    yield f"retry: {RETRY}\n\n".encode()
    while True:
        page = reader.read(after)
        if page.events:
            yield render(page)
        after = page.last
        if page.ended or time.monotonic() >= ends:
            return
        beat = time.monotonic() + HEARTBEAT
        while not reader.has_news(after):
            if time.monotonic() >= ends:
                return
            if time.monotonic() >= beat:
                beat = time.monotonic() + HEARTBEAT
                yield b": nothing new\n\n"
            yield hitl.EVENT_POLL_SECONDS


class Slots:
    """How many answers of this process may wait at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = 0

    def take(self, most: int) -> bool:
        """Takes a slot; False where there is none left."""
        with self._lock:
            if self.taken >= most:
                return False
            self.taken += 1
            return True

    def give_back(self) -> bool:
        """Gives a slot back; True where it was the last one taken."""
        with self._lock:
            self.taken -= 1
            return not self.taken


_threads, _streams = Slots(), Slots()
_reading = ThreadPoolExecutor(1, "hitl-events")


class WaitingResponse(StreamingHttpResponse):
    """An answer made of steps, which gives its slot back when it is over."""

    def __init__(self, steps: Steps, on_loop: bool, **options: Any) -> None:
        super().__init__(_on_loop(steps) if on_loop else _here(steps), **options)
        self._slots: Slots | None = _streams if on_loop else _threads

    def close(self) -> None:
        super().close()
        slots, self._slots = self._slots, None
        if slots is not None and slots.give_back() and slots is _streams:
            _reading.submit(connections.close_all)


def may_wait(request: HttpRequest) -> bool:
    """Takes a slot for an answer that waits; False where it has to be given at once.

    A process that serves one request at a time would serve no other meanwhile, so it never waits.
    """
    if isinstance(request, ASGIRequest):
        return _streams.take(hitl.EVENT_STREAMS)
    return bool(request.META.get("wsgi.multithread")) and _threads.take(hitl.EVENT_WAITERS)


def answer(
    request: HttpRequest, steps: Callable[[float], Steps], seconds: float | None, media: str
) -> WaitingResponse:
    """Returns an answer that waits so long at most, or as long as its kind may; slot taken."""
    on_loop = isinstance(request, ASGIRequest)
    most = LONGEST if on_loop and seconds is None else hitl.EVENT_WAIT_SECONDS
    if on_loop:
        # The request's own thread idles from here on, and needs no connection for that.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
    made = steps(most if seconds is None else min(seconds, most))
    return WaitingResponse(made, on_loop, content_type=media)


def _here(steps: Steps) -> Iterator[bytes]:
    for step in steps:
        if isinstance(step, bytes):
            yield step
        else:
            time.sleep(step)


async def _on_loop(steps: Steps) -> AsyncIterator[bytes]:
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
