"""Clocks that tests control.

The first clock advances only when all tasks wait, so long waits end immediately and nothing is
late. The second clock shows the real time plus an offset. The third belongs to one module.
"""

from __future__ import annotations

import asyncio
import mmap
import selectors
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

OFF = struct.Struct("d")


class LeapingClock:
    """The time in seconds that waits have taken."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


class LeapingSelector(selectors.DefaultSelector):
    """Selector of an event loop.

    If nothing is ready, the time that the loop would wait passes immediately.
    """

    def __init__(self, clock: LeapingClock) -> None:
        super().__init__()
        self.clock = clock
        #: Number of calls that the loop has given to other OS threads, which take real time.
        self.elsewhere = 0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or (timeout > 0 and self.elsewhere):
            return super().select()
        ready = super().select(0)
        if not ready:
            self.clock.now += max(0, timeout)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """Event loop that advances to its next timer immediately, unless it waits for another OS
    thread.
    """

    def __init__(self, clock: LeapingClock) -> None:
        self.waits = LeapingSelector(clock)
        super().__init__(self.waits)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self.waits.elsewhere += 1
        work = super().run_in_executor(executor, func, *args)
        work.add_done_callback(self._is_back)
        return work

    async def shutdown_default_executor(self, *args: Any) -> None:
        self.waits.elsewhere += 1
        await super().shutdown_default_executor(*args)

    def _is_back(self, work: Any) -> None:
        self.waits.elsewhere -= 1


def module_time(**functions: Any) -> SimpleNamespace:
    """Return a replacement for ``time`` in one module.

    Replacing a function of ``time`` itself would also affect the background threads of the process.
    """
    return SimpleNamespace(**{**vars(time), **functions})


@contextmanager
def leaping() -> Iterator[None]:
    """Make event loops and the monotonic clock advance from one timer to the next."""
    clock = LeapingClock()
    with (
        patch.object(time, "monotonic", clock),
        patch.object(asyncio.events, "new_event_loop", lambda: LeapingLoop(clock)),
    ):
        yield


def set_off(path: Path, seconds: float) -> None:
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(OFF.pack(seconds))


def follow(path: Path) -> None:
    """Shift the clock of this process's Python code by the offset in a file.

    Only the time of day changes. ``time.monotonic`` isn't affected.
    """
    from django.utils import timezone

    with path.open("rb") as file:
        off = mmap.mmap(file.fileno(), OFF.size, access=mmap.ACCESS_READ)
    ticks, now = time.time, timezone.now

    def told() -> float:
        (seconds,) = OFF.unpack_from(off)
        return float(seconds)

    time.time = lambda: ticks() + told()
    timezone.now = lambda: now() + timedelta(seconds=told())  # type: ignore[method-assign]
