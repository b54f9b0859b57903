"""A pool of asyncio tasks that runs the tasks of a super-step.

The pool creates an additional asyncio task only if a task of the super-step has to wait.
"""

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
    """The asyncio tasks, called lanes, that run a super-step's tasks in parallel on one event loop.

    A lane runs queued tasks one after the other until a task has to wait. From then on, the lane
    belongs to the waiting task, and new lanes run the remaining tasks. A task that never waits
    therefore needs no separate asyncio task. A task that waits has its own asyncio task, so
    cancellations and timeouts affect only this task.
    """

    def __init__(self, limit: int | None, perform: Callable[[TaskContext], Performing]) -> None:
        self._limit, self._perform = limit, perform
        #: Tasks that no lane has started. Each runs with a copy of ``_variables``.
        self._waiting: deque[TaskContext] = deque()
        self._variables: contextvars.Context | None = None
        #: Tasks that have neither ended nor been cancelled.
        self._open: set[TaskContext] = set()
        self._ended: list[Task] = []
        #: An error that ended a task and isn't a failure of the task's node.
        self._crash: BaseException | None = None
        #: The lanes are referenced here, because an event loop keeps only weak references.
        self._lanes: set[asyncio.Task[None]] = set()
        #: The number of lanes that have not started.
        self._opening = 0
        #: Prevents recursion on an event loop that starts tasks eagerly.
        self._is_opening = False
        #: Set when a task has ended or a chunk was emitted.
        self.wake = asyncio.Event()
        #: The deadline of the running tasks on the monotonic clock.
        self.deadline: float | None = None

    def take_on(self, contexts: Sequence[TaskContext]) -> None:
        """Add tasks, which start as soon as the caller awaits."""
        self._variables = contextvars.copy_context()
        self._open.update(contexts)
        self._waiting.extend(contexts)
        self._open_lanes()

    async def wait(self) -> None:
        """Wait until ``wake`` is set, and clear it.

        Raises:
            TimeoutError: ``deadline`` has passed.
        """
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
        """Whether a task has ended or crashed since the last call of take() or get_ended()."""
        return bool(self._ended) or self._crash is not None

    def take(self) -> Sequence[Task]:
        """Return the tasks that have ended since the last call of take() or get_ended().

        If a task has raised an error that ends the run, such as SystemExit, this method returns the
        ended tasks first. When there are none left, it raises the error. The ended tasks are thus
        stored and don't run again.
        """
        if not self._ended and self._crash is not None:
            raise self._crash
        return self.get_ended()

    def get_ended(self) -> Sequence[Task]:
        """Return the tasks that have ended since the last call of take() or get_ended()."""
        ended, self._ended = self._ended, []
        return ended

    async def drop(self) -> int:
        """Cancel the unfinished tasks, and return the number of cancelled tasks."""
        dropped, lanes = len(self._open), self._lanes
        self._open, self._lanes, self._opening = set(), set(), 0
        self._waiting.clear()
        for lane in lanes:
            lane.cancel()
        if lanes:
            await asyncio.gather(*lanes, return_exceptions=True)
        return dropped

    def _open_lanes(self) -> None:
        """Start lanes (asyncio tasks) for queued tasks, up to the maximum number of lanes.

        Each lane starts at most two other lanes. A hundred waiting tasks are therefore started
        within seven iterations of the event loop, even if the event loop is busy.
        """
        if self._is_opening:
            return
        self._is_opening, enough = True, self._opening + 2
        try:
            while self._opening < enough and self._needs_lane():
                self._opening += 1
                lane = asyncio.get_running_loop().create_task(self._run_lane())
                # On an event loop that starts tasks eagerly, the lane may have ended.
                if not lane.done():
                    self._lanes.add(lane)
        finally:
            self._is_opening = False

    def _needs_lane(self) -> bool:
        """Return whether a queued task needs a new lane (an asyncio task).

        The result is False if the maximum number of tasks is already running.
        """
        waiting = len(self._waiting)
        if self._limit is not None and self._opening + len(self._open) - waiting >= self._limit:
            return False
        return waiting > self._opening

    async def _run_lane(self) -> None:
        """Run queued tasks until one of the tasks has to wait."""
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
    """An awaitable that continues a started coroutine in the coroutine's contextvars context."""

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
                # This runs outside of the except block, so that later exceptions of the task don't
                # get this exception as context.
                if thrown is None:
                    awaited = run(running.send, reply)
                else:
                    awaited = run(running.throw, thrown)
                    thrown = None
        except StopIteration:
            return
        finally:
            thrown = None  # The exception's traceback refers to this frame.
