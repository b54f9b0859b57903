"""A clock that goes on only when everybody waits: long waits are over at once, nothing is late."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class LeapingClock:
    """The time, in seconds, that waits have taken."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


class LeapingSelector(selectors.DefaultSelector):
    """What an event loop waits with: where nothing is ready, the time it would wait passes."""

    def __init__(self, clock: LeapingClock) -> None:
        super().__init__()
        self.clock = clock
        #: How much the loop has given to other threads, which take real time.
        self.elsewhere = 0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or (timeout > 0 and self.elsewhere):
            return super().select()
        ready = super().select(0)
        if not ready:
            self.clock.now += max(0, timeout)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop that leaps to its next timer, unless it waits for another thread."""

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


@contextmanager
def leaping() -> Iterator[None]:
    """Has event loops leap from one of their timers to the next, with the monotonic clock."""
    clock = LeapingClock()
    with (
        patch.object(time, "monotonic", clock),
        patch.object(asyncio.events, "new_event_loop", lambda: LeapingLoop(clock)),
    ):
        yield
