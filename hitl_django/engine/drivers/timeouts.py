"""Timeouts of async nodes: attempts that are timed, and stopped when their time is over.

Only what an event loop runs can be stopped from outside, so only async nodes have a timeout. An
attempt under a timeout works on a context of its own, whose findings count as long as it is in
time: what it still streams, asks or returns after that reaches nobody, and what it would do once,
or have a task or a graph do, is refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from ..bridges import find_langchain
from ..errors import AttemptTimedOutError, NodeTimeoutError
from ..loop.effects import Effects
from ..loop.loop import run_loop
from ..loop.state import LoopState
from ..task.ambient_config import AMBIENT_CONFIG
from ..task.context import TaskContext, changing, current
from ..task.effects import Call
from ..task.nodes import Action
from ..task.once_guard import OnceGuard
from ..task.run_context import RunContext
from ..task.runtime import Runtime
from ..types import Expiry, RunnableConfig, TimeoutPolicy

#: How long, in seconds, a stopped attempt may take to clean up before it is left to itself. The
#: next attempt doesn't begin while the last one's work on the same things is still under way.
GRACE = 1.0

#: What starts a call and returns what to await for its result.
Start = Callable[[TaskContext, Call], Awaitable[Any]]


def check_stoppable(name: str, action: Action) -> None:
    """Raise ValueError for a sync node."""
    if not action.is_async:
        raise ValueError(
            "Node timeouts are only supported for async nodes because sync Python execution "
            f"cannot be safely cancelled in-process. Node '{name}' is sync."
        )


class AttemptTimer:
    """Performs the calls of a task that has a timeout; the time counts for each attempt anew."""

    def __init__(self, policy: TimeoutPolicy, context: TaskContext, start: Start) -> None:
        self.policy, self.context, self.start = policy, context, start
        self.attempt = 0
        self.began = self.progressed = 0.0
        #: Whether the attempt that is being made has run out of time.
        self.over = False

    def touch(self) -> None:
        """Note progress; may be called from any thread."""
        self.progressed = time.monotonic()

    def due(self) -> tuple[float, str]:
        """Return when the attempt runs out of time, by the monotonic clock, and by which limit."""
        run, idle = self.policy.run_timeout, self.policy.idle_timeout
        moments = [] if run is None else [(self.began + run, "run")]  # type: ignore[operator]
        if idle is not None:
            moments.append((self.progressed + idle, "idle"))  # type: ignore[operator]
        return min(moments)

    async def call(self, call: Call) -> Any:
        """Make a call of the attempt; raises NodeTimeoutError when its time is over."""
        context = self.context
        if call.action is context.task.node.action:
            check_stoppable(context.task.name, call.action)
        if context.attempt != self.attempt:
            self.attempt, self.over = context.attempt, False
            self.began = self.progressed = time.monotonic()
        view = TimedContext.create(context, self)
        variables = contextvars.copy_context()
        variables.run(current.set, view)
        if context.run.ambient_config is not None:
            variables.run(context.run.ambient_config.set, AMBIENT_CONFIG)
        running = asyncio.get_running_loop().create_task(
            _awaited(self.start, view, call), context=variables
        )
        try:
            kind = await self._wait(running)
        except asyncio.CancelledError:
            # The run is cancelled: the node cleans up, as it would if it were awaited directly.
            running.cancel()
            await asyncio.wait([running])
            view.copy_to(context)
            raise
        view.copy_to(context)
        if kind is None:
            return running.result()
        elapsed = time.monotonic() - self.began
        with changing:
            view.watch = None
        running.cancel()
        await asyncio.wait([running], timeout=GRACE)
        running.add_done_callback(_forget)
        raise NodeTimeoutError(
            context.task.name,
            elapsed,
            kind=kind,  # type: ignore[arg-type]
            idle_timeout=self.policy.idle_timeout,  # type: ignore[arg-type]
            run_timeout=self.policy.run_timeout,  # type: ignore[arg-type]
        )

    async def _wait(self, running: asyncio.Task[Any]) -> str | None:
        """Wait for the call to end; returns which limit was reached before, if one was."""
        while not running.done():
            moment, kind = self.due()
            left = moment - time.monotonic()
            if left <= 0:
                return kind
            await asyncio.wait([running], timeout=left)
        return None


async def _awaited(start: Start, context: TaskContext, call: Call) -> Any:
    return await start(context, call)


def _forget(running: asyncio.Task[Any]) -> None:
    """Look at how a late attempt ended, so that asyncio doesn't report it as overlooked."""
    if not running.cancelled():
        running.exception()


class TimedContext(TaskContext):
    """A task's context as one attempt under a timeout sees it.

    ``watch`` is None when its time is over.
    """

    __slots__ = ("progress_callbacks", "task_context", "watch")

    task_context: TaskContext
    watch: AttemptTimer | None
    #: Hears of what langchain does in the attempt, where that counts as progress.
    progress_callbacks: Any

    @classmethod
    def create(cls, context: TaskContext, watch: AttemptTimer) -> TimedContext:
        """Return a view of ``context``."""
        view = cls.__new__(cls)
        view.task_context, view.watch, view.progress_callbacks = context, watch, None
        _copy(context, view)
        counts_events = watch.policy.idle_timeout is not None and watch.policy.refresh_on == "auto"
        if counts_events and context.run.ambient_config is not None:
            view.progress_callbacks = find_langchain().ProgressCallbacks(view.progress)
        return view

    def base_config(self) -> RunnableConfig:
        """Return the run's config with what hears of the attempt's progress."""
        config = super().base_config()
        if self.progress_callbacks is None:
            return config
        callbacks = find_langchain().add_handler(config.get("callbacks"), self.progress_callbacks)
        return {**config, "callbacks": callbacks}

    def copy_to(self, context: TaskContext) -> None:
        """Make what was found so far count."""
        _copy(self, context)

    def progress(self) -> None:
        """Note that something has happened, where the policy counts that."""
        if self.watch is not None and self.watch.policy.refresh_on == "auto":
            self.watch.touch()
        super().progress()

    def heartbeat(self) -> None:
        """Note progress that the node itself reports, here and in the nodes above."""
        if self.watch is not None:
            self.watch.touch()
        self.run.runtime.heartbeat()

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        terms: Any = None,
    ) -> Any:
        """Like the task's own, unless nobody would hear the question any more."""
        if self.watch is None:
            raise asyncio.CancelledError
        return super().ask(value, schema, key, expires, terms)

    def check_in_time(self) -> None:
        """Refuse what the attempt would do after its time: the next one does it anew."""
        if self.watch is None:
            raise AttemptTimedOutError(self.task.name, self.attempt)

    # What was done once is the task's, not the attempt's: what code of an earlier attempt still
    # found and what the present one finds must not replace each other, here or in the store.
    @property
    def once(self) -> dict[str, Any]:
        """The results of once() that the task has by now."""
        return self.task_context.once

    @once.setter
    def once(self, results: dict[str, Any]) -> None:
        self.check_in_time()
        self.task_context.once = results

    @property
    def once_guard(self) -> OnceGuard:
        """What code of the task is doing, in whichever attempt."""
        return self.task_context.once_guard

    def remember(self, key: str, result: Any) -> None:
        """Like the task's own, as long as there is time; counts as progress."""
        self.progress()
        super().remember(key, result)

    def remember_stored(self, key: str, result: Any) -> None:
        """Like the task's own: the next attempt must find it."""
        self.task_context.remember(key, result)

    def child_ns(self) -> str:
        """Like the task's own, unless the namespace is the next attempt's by now."""
        self.check_in_time()
        return super().child_ns()

    def runtime(self) -> Runtime[Any]:
        """Return the task's runtime with this attempt's heartbeat."""
        return super().runtime().override(heartbeat=self.heartbeat)

    def write(self, chunk: Any) -> None:
        """Emit a custom stream chunk, unless the attempt's time is over; counts as progress."""
        if self.watch is not None:
            self.progress()
            super().write(chunk)


def _copy(source: TaskContext, target: TaskContext) -> None:
    for name in TaskContext.__slots__:
        if name != "once" and hasattr(source, name):
            setattr(target, name, getattr(source, name))


def open_effects(state: LoopState) -> Effects:
    """Return the effects of a run.

    Within a node that has an idle timeout, each thing the run does is progress of that node.
    """
    effects = run_loop(state)
    return effects if state.run.progress is None else _report_progress(state.run, effects)


def _report_progress(run: RunContext, effects: Effects) -> Generator[Any, Any, None]:
    reply: Any = None
    try:
        effect = next(effects)
        while True:
            if run.progress is not None:
                run.progress()
            try:
                reply = yield effect
            except GeneratorExit:
                effects.close()
                raise
            except BaseException as error:
                effect = effects.throw(error)
            else:
                effect = effects.send(reply)
    except StopIteration:
        return
