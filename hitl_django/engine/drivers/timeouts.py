"""Timeouts of async nodes.

Only code on an event loop can be cancelled while it runs, so only async nodes support a timeout.
Each attempt with a timeout has its own context. Stream chunks, interrupts and results after the
time limit are discarded. Calls of once(), tasks and graphs after the time limit raise an error.
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

#: Seconds for which a stopped attempt may clean up before it is abandoned. The next attempt starts
#: afterwards, so that two attempts don't work on the same data simultaneously.
GRACE = 1.0

#: Starts a call and returns an awaitable for its result.
Start = Callable[[TaskContext, Call], Awaitable[Any]]


def check_stoppable(name: str, action: Action) -> None:
    """Raise ValueError if the node is sync, because only an async node can be stopped."""
    if not action.is_async:
        raise ValueError(
            "Node timeouts are only supported for async nodes because sync Python execution "
            f"cannot be safely cancelled in-process. Node '{name}' is sync."
        )


class AttemptTimer:
    """A timer that calls a task's functions within the time limits of an attempt.

    Each attempt starts with new time limits.
    """

    def __init__(self, policy: TimeoutPolicy, context: TaskContext, start: Start) -> None:
        self.policy, self.context, self.start = policy, context, start
        self.attempt = 0
        self.began = self.progressed = 0.0
        #: Whether the current attempt has timed out.
        self.over = False

    def touch(self) -> None:
        """Restart the idle timeout, because the node makes progress.

        Any OS thread may call this method.
        """
        self.progressed = time.monotonic()

    def due(self) -> tuple[float, str]:
        """Return the next deadline of the attempt on the monotonic clock, and its kind.

        The kind is ``run`` or ``idle``.
        """
        run, idle = self.policy.run_timeout, self.policy.idle_timeout
        moments = [] if run is None else [(self.began + run, "run")]  # type: ignore[operator]
        if idle is not None:
            moments.append((self.progressed + idle, "idle"))  # type: ignore[operator]
        return min(moments)

    async def call(self, call: Call) -> Any:
        """Call a function of the node within the time limits of the attempt.

        Raises:
            NodeTimeoutError: the attempt exceeded a time limit.
        """
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
            # The run is cancelled. The node cleans up as if the node were awaited directly.
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
        running.add_done_callback(_retrieve_exception)
        raise NodeTimeoutError(
            context.task.name,
            elapsed,
            kind=kind,  # type: ignore[arg-type]
            idle_timeout=self.policy.idle_timeout,  # type: ignore[arg-type]
            run_timeout=self.policy.run_timeout,  # type: ignore[arg-type]
        )

    async def _wait(self, running: asyncio.Task[Any]) -> str | None:
        """Wait for the call to end.

        Return the kind of the exceeded limit, or None if the call ended in time.
        """
        while not running.done():
            moment, kind = self.due()
            left = moment - time.monotonic()
            if left <= 0:
                return kind
            await asyncio.wait([running], timeout=left)
        return None


async def _awaited(start: Start, context: TaskContext, call: Call) -> Any:
    return await start(context, call)


def _retrieve_exception(running: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a timed-out attempt, so that asyncio doesn't log it."""
    if not running.cancelled():
        running.exception()


class TimedContext(TaskContext):
    """A task's context for one attempt with a timeout.

    ``watch`` is the timer of the attempt, or None after the time limit.
    """

    __slots__ = ("progress_callbacks", "task_context", "watch")

    task_context: TaskContext
    watch: AttemptTimer | None
    #: Callbacks that report langchain's events in the attempt as progress, if the policy counts
    #: events.
    progress_callbacks: Any

    @classmethod
    def create(cls, context: TaskContext, watch: AttemptTimer) -> TimedContext:
        view = cls.__new__(cls)
        view.task_context, view.watch, view.progress_callbacks = context, watch, None
        view._config = None
        _copy(context, view)
        counts_events = watch.policy.idle_timeout is not None and watch.policy.refresh_on == "auto"
        if counts_events and context.run.ambient_config is not None:
            view.progress_callbacks = find_langchain().ProgressCallbacks(view.progress)
        return view

    def base_config(self) -> RunnableConfig:
        """Return the run's config, with callbacks that report LangChain events as progress."""
        config = super().base_config()
        if self.progress_callbacks is None:
            return config
        callbacks = find_langchain().add_handler(config.get("callbacks"), self.progress_callbacks)
        return {**config, "callbacks": callbacks}

    def copy_to(self, context: TaskContext) -> None:
        _copy(self, context)

    def progress(self) -> None:
        """Report an event as progress of the attempt, if the policy has ``refresh_on="auto"``.

        If the task belongs to a subgraph, the event is also reported to the node that called the
        subgraph.
        """
        if self.watch is not None and self.watch.policy.refresh_on == "auto":
            self.watch.touch()
        super().progress()

    def heartbeat(self) -> None:
        """Report a ``heartbeat()`` call as progress of this attempt.

        If the task belongs to a subgraph, the call is also progress of the calling nodes at all
        levels.
        """
        if self.watch is not None:
            self.watch.touch()
        self.run.runtime.heartbeat()

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        review_options: Any = None,
    ) -> Any:
        if self.watch is None:
            raise asyncio.CancelledError
        return super().ask(value, schema, key, expires, review_options)

    def check_in_time(self) -> None:
        """Raise AttemptTimedOutError if the attempt has timed out."""
        if self.watch is None:
            raise AttemptTimedOutError(self.task.name, self.attempt)

    # Results of once() belong to the task, not to the attempt. Results of a timed-out attempt and
    # of the current attempt must not replace each other in memory or in storage.
    @property
    def once(self) -> dict[str, Any]:
        """The results of the task's once() calls so far, by key."""
        return self.task_context.once

    @once.setter
    def once(self, results: dict[str, Any]) -> None:
        self.check_in_time()
        self.task_context.once = results

    @property
    def once_guard(self) -> OnceGuard:
        """The guard against concurrent once() calls with the same key.

        All attempts of the task share it.
        """
        return self.task_context.once_guard

    def remember(self, key: str, result: Any) -> None:
        """Save a result of once(), and report it as progress.

        Raises:
            AttemptTimedOutError: the attempt has timed out.
        """
        self.progress()
        super().remember(key, result)

    def remember_stored(self, key: str, result: Any) -> None:
        """Keep a stored result of once() in memory, so that the next attempt reuses it.

        Unlike ``remember``, this method is also allowed if the attempt has timed out.
        """
        self.task_context.remember(key, result)

    def child_ns(self) -> str:
        """Return the namespace for the next graph that the node calls.

        Raises:
            AttemptTimedOutError: the attempt has exceeded its time limit. The namespace remains
                unused, and the next attempt gets it.
        """
        self.check_in_time()
        return super().child_ns()

    def runtime(self) -> Runtime[Any]:
        """Return the task's runtime, with the ``heartbeat`` function of this attempt."""
        return super().runtime().override(heartbeat=self.heartbeat)

    def write(self, chunk: Any) -> None:
        """Emit a custom stream chunk, and report it as progress.

        After the time limit, do nothing.
        """
        if self.watch is not None:
            self.progress()
            super().write(chunk)


def _copy(source: TaskContext, target: TaskContext) -> None:
    for name in TaskContext.__slots__:
        if name not in ("once", "_config") and hasattr(source, name):
            setattr(target, name, getattr(source, name))


def open_effects(state: LoopState) -> Effects:
    """Return the generator of a run's I/O operations, such as calls of nodes and of the saver.

    If the run was started inside a node with an idle timeout, each operation counts as progress of
    that node.
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
