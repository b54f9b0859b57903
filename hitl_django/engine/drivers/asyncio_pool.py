"""A pool of asyncio tasks for the tasks of a step, no more of them than have to wait."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from ..task.context import TaskContext
from ..task.task import Task

Performing = Coroutine[Any, Any, Task]


class AsyncTasks:
    """The lanes in which a run's tasks go side by side on one event loop.

    A lane is an asyncio task. It takes one waiting task after the other until one of them has to
    wait for something: that one has the lane for itself from there on, and new lanes take the
    others. So a task that never waits costs no asyncio task, and one that does is alone in its
    own: what it cancels, times out or asks for as the current task is its own.
    """

    def __init__(self, limit: int | None, perform: Callable[[TaskContext], Performing]) -> None:
        self._limit, self._perform = limit, perform
        #: Tasks that no lane has taken yet; each runs with a copy of ``_variables``.
        self._waiting: deque[TaskContext] = deque()
        self._variables: contextvars.Context | None = None
        #: What was taken on, hasn't ended and wasn't dropped.
        self._open: set[TaskContext] = set()
        self._ended: list[Task] = []
        #: What ended a task that was no failure of its node.
        self._crash: BaseException | None = None
        #: Kept here, because an event loop keeps only weak references.
        self._lanes: set[asyncio.Task[None]] = set()
        #: How many of them haven't begun.
        self._opening = 0
        #: Whether lanes are being opened, on an event loop that begins tasks at once by a lane.
        self._opens = False
        #: Set when something has ended, or was emitted.
        self.wake = asyncio.Event()
        #: When the running tasks have to be done, by the monotonic clock.
        self.deadline: float | None = None

    def take_on(self, contexts: Sequence[TaskContext]) -> None:
        """Has tasks run as soon as the caller awaits something."""
        self._variables = contextvars.copy_context()
        self._open.update(contexts)
        self._waiting.extend(contexts)
        self._open_lanes()

    async def wait(self) -> None:
        """Wait until ``wake`` is set; raises TimeoutError at the deadline."""
        if self.deadline is None:
            await self.wake.wait()
        else:
            left = max(0.0, self.deadline - time.monotonic())
            try:
                await asyncio.wait_for(self.wake.wait(), left)
            except TimeoutError:
                raise TimeoutError("Timed out") from None
        self.wake.clear()

    @property
    def has_news(self) -> bool:
        """Whether a task has ended, or crashed, that wasn't taken yet."""
        return bool(self._ended) or self._crash is not None

    def take(self) -> Sequence[Task]:
        """Return the tasks that have ended since the last call; raises what crashed beside them.

        SystemExit and its like end the run, but only after the caller was handed what has ended
        beside it, so that it is stored and doesn't run again.
        """
        if not self._ended and self._crash is not None:
            raise self._crash
        return self.get_ended()

    def get_ended(self) -> Sequence[Task]:
        """Return the tasks that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    async def drop(self) -> int:
        """Cancel the tasks that haven't ended; returns their number."""
        dropped, lanes = len(self._open), self._lanes
        self._open, self._lanes, self._opening = set(), set(), 0
        self._waiting.clear()
        for lane in lanes:
            lane.cancel()
        if lanes:
            await asyncio.gather(*lanes, return_exceptions=True)
        return dropped

    def _open_lanes(self) -> None:
        """Open lanes for waiting tasks, as far as there may be more.

        Two at a time: whatever else keeps the event loop busy, a hundred tasks that all have to
        wait are begun within seven of its rounds.
        """
        if self._opens:
            return
        self._opens, enough = True, self._opening + 2
        try:
            while self._opening < enough and self._has_room():
                self._opening += 1
                lane = asyncio.get_running_loop().create_task(self._lane())
                # Where the event loop begins tasks at once it may have come to its end.
                if not lane.done():
                    self._lanes.add(lane)
        finally:
            self._opens = False

    def _has_room(self) -> bool:
        """Return whether a task waits for a lane that nobody has opened yet and that may be."""
        waiting = len(self._waiting)
        if self._limit is not None and self._opening + len(self._open) - waiting >= self._limit:
            return False
        return waiting > self._opening

    async def _lane(self) -> None:
        """Perform waiting tasks until one has had to wait."""
        self._opening -= 1
        lane, variables = asyncio.current_task(), self._variables
        assert lane is not None
        assert variables is not None
        while self._waiting:
            context = self._waiting.popleft()
            own, running = variables.copy(), self._perform(context)
            waited = False
            try:
                try:
                    awaited = own.run(running.send, None)
                except StopIteration:
                    pass
                else:
                    waited = True
                    self._open_lanes()
                    await _Rest(running, own, awaited)
            except BaseException as error:
                if context not in self._open:
                    raise
                self._crash = self._crash or error
                self._waiting.clear()
            else:
                if context in self._open:
                    self._ended.append(context.task)
            self._open.discard(context)
            self.wake.set()
            if waited or lane.cancelling():
                break
        self._lanes.discard(lane)
        self._open_lanes()


class _Rest:
    """Awaits what is left of a coroutine that was begun in a context of its own."""

    __slots__ = ("_awaited", "_running", "_variables")

    def __init__(self, running: Performing, variables: contextvars.Context, awaited: Any) -> None:
        self._running, self._variables, self._awaited = running, variables, awaited

    def __await__(self) -> Generator[Any, Any, None]:
        running, run, awaited = self._running, self._variables.run, self._awaited
        thrown: BaseException | None = None
        try:
            while True:
                try:
                    reply = yield awaited
                except BaseException as error:
                    thrown = error
                # Not within the handler, or whatever the task raises from there on would be said to
                # have been raised while that was handled.
                if thrown is None:
                    awaited = run(running.send, reply)
                else:
                    awaited = run(running.throw, thrown)
                    thrown = None
        except StopIteration:
            return
        finally:
            thrown = None  # its traceback holds this frame
