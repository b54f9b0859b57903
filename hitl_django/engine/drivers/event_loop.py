"""The driver for callers on an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from ..attempt import attempt
from ..callbacks import atell
from ..checkpoint import BaseCheckpointSaver
from ..context import TaskContext, akeep, current, saver_calls
from ..effects import (
    Await,
    Call,
    Cancel,
    Emit,
    Keep,
    List,
    Load,
    Notify,
    Query,
    Recall,
    Run,
    RunBeside,
    Save,
    Wait,
)
from ..errors import DrainSignal
from ..loop import Loop
from ..plan import Task
from ..stream import Chunk
from ..timeouts import Watch
from .asking import answer_from
from .calling import as_failure, injected
from .performing import call_here
from .task_threads import MOST_THREADS


async def aask(query: Query, saver: BaseCheckpointSaver) -> Any:
    """Like ask, on the running event loop."""
    reply: Any = None
    try:
        effect = next(query)
        while True:
            try:
                reply = await _aanswer(effect, saver)
            except BaseException as error:
                effect = query.throw(error)
            else:
                effect = query.send(reply)
    except StopIteration as done:
        return done.value


async def _aanswer(effect: Load | List | Save | Call, saver: BaseCheckpointSaver) -> Any:
    if isinstance(effect, Load):
        return await saver.aget_tuple(effect.config)
    if isinstance(effect, List):
        found = saver.alist(
            effect.config, filter=effect.filter, before=effect.before, limit=effect.limit
        )
        return [saved async for saved in found]
    if isinstance(effect, Save):
        return await saver.acommit(effect.commit)
    called = effect.action.call(effect.value)
    return await called if effect.action.is_async else called


def _acall(context: TaskContext, call: Call) -> Awaitable[Any]:
    """Starts a call; returns what to await for its result."""
    action = call.action
    if action.is_async:
        given = injected(context, action) if action.injected else {}
        awaited: Awaitable[Any] = action.call(call.value, **given)
        return awaited
    place = contextvars.copy_context()
    running = asyncio.get_running_loop()
    return running.run_in_executor(None, place.run, call_here, context, call)


async def _wait(context: TaskContext, wait: Wait) -> None:
    """Waits before a task's next attempt; a run that is asked to stop meanwhile stops."""
    if wait.commit is not None:
        await akeep(context, wait.commit)
    control = context.run.control
    if control is None:
        await asyncio.sleep(wait.seconds)
    elif await control.await_(wait.seconds):
        raise DrainSignal


async def aperform(context: TaskContext) -> Task:
    """Runs one task to its end on this event loop."""
    token = current.set(context)
    steps = attempt(context)
    limit = context.task.node.timeout
    watch = None if limit is None else Watch(limit, context, _acall)
    reply: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if type(step) is Call:
                    reply = await (_acall(context, step) if watch is None else watch.call(step))
                else:
                    await _wait(context, step)  # type: ignore[arg-type]
                    reply = None
            except BaseException as error:
                step = steps.throw(as_failure(context, error))
            else:
                step = steps.send(reply)
    except StopIteration:
        if context.calls is not None:
            await context.calls.asettle()
            context.calls = None
        return context.task
    finally:
        current.reset(token)
        if context.calls is not None:
            context.calls.drop()


class AsyncDriver:
    """Drives a loop from a coroutine, with an asyncio task for each task of several."""

    def __init__(self, loop: Loop, max_concurrency: int | None = None) -> None:
        self.loop = loop
        self.guard = saver_calls if loop.run.within else nullcontext
        self.gate = asyncio.Semaphore(max_concurrency) if max_concurrency else None
        #: Kept here, too, because an event loop keeps only weak references.
        self.running: dict[TaskContext, asyncio.Task[None]] = {}
        self.ended: list[Task] = []
        #: What ended a task that was no failure of its node.
        self.crash: BaseException | None = None
        self.chunks: deque[Chunk] = deque()
        self.wake: asyncio.Event | None = None
        self.home: asyncio.AbstractEventLoop | None = None
        self.deadline: float | None = None
        #: Threads for the tasks that sync nodes call.
        self.pool: ThreadPoolExecutor | None = None
        loop.run.crew = self

    async def chunks_of(self) -> AsyncIterator[Chunk]:
        """Performs the loop's effects; yields what the run emits."""
        self.home = asyncio.get_running_loop()
        effects = self.loop.effects()
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                kind = type(effect)
                try:
                    if kind is Run:
                        await self._start(effect.contexts)  # type: ignore[union-attr]
                        reply, self.ended = self.ended, []
                    elif kind is Await:
                        while not self.ended and self.crash is None:
                            await self._take()
                            for chunk in self._drain():
                                yield chunk
                        if not self.ended:
                            raise self.crash  # type: ignore[misc]
                        reply, self.ended = self.ended, []
                    elif kind is Save:
                        await _shielded(self._ask_saver(effect))  # type: ignore[arg-type]
                        reply = None
                    elif kind is Emit:
                        for chunk in effect.chunks:  # type: ignore[union-attr]
                            yield chunk
                        reply = None
                    elif kind is Cancel:
                        reply = await self._cancel()
                    elif kind is RunBeside:
                        await self._start(effect.contexts, beside=True)  # type: ignore[union-attr]
                        reply, self.ended = self.ended, []
                    elif kind is Recall:
                        reply = await self.loop.graph.cache.aget(effect.keys)  # type: ignore[union-attr]
                    elif kind is Keep:
                        reply = await self.loop.graph.cache.aset(effect.pairs)  # type: ignore[union-attr]
                    elif kind is Notify:
                        await atell(self.loop.run.callbacks, effect.event)  # type: ignore[union-attr]
                        reply = None
                    else:
                        reply = await self._ask_saver(effect)  # type: ignore[arg-type]
                except GeneratorExit:
                    raise
                except BaseException as error:
                    effect = effects.throw(error)
                else:
                    for chunk in self._drain():
                        yield chunk
                    effect = effects.send(reply)
        except StopIteration:
            for chunk in self._drain():
                yield chunk
        finally:
            await self._cancel()
            if self.pool is not None:
                self.pool.shutdown(wait=False)

    def spawns(self) -> bool:
        """Tells that sync code may wait for a thread: it isn't on the event loop's own."""
        return True

    def spawn(self, work: Callable[[], None]) -> None:
        """Has a thread do the work."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(MOST_THREADS, "hitl-task")
        self.pool.submit(work)

    async def _ask_saver(self, effect: Load | List | Save) -> Any:
        run = self.loop.run
        saver: Any = run.saver
        with self.guard():
            if run.calls_home:
                return await asyncio.to_thread(run.perform, answer_from, effect, saver)
            return await _aanswer(effect, saver)

    async def _start(self, contexts: Sequence[TaskContext], beside: bool = False) -> None:
        timeout = self.loop.graph.step_timeout
        for context in contexts:
            context.perform = self.perform_here
            context.is_async = not self.loop.run.calls_home
        if timeout is not None:
            self.deadline = self.deadline if beside else time.monotonic() + timeout
        elif len(contexts) == 1 and not (
            self.loop.run.live or beside or _tells_of_calls(contexts[0])
        ):
            self.ended.append(await aperform(contexts[0]))
            return
        if self.wake is None:
            self.wake = asyncio.Event()
        create = asyncio.get_running_loop().create_task
        for context in contexts:
            self.running[context] = create(self._work(context))

    async def _work(self, context: TaskContext) -> None:
        """Performs one of several tasks, and reports it ended unless it was cancelled."""
        try:
            if self.gate is None:
                await aperform(context)
            else:
                async with self.gate:
                    await aperform(context)
        except BaseException as error:
            if not self._leaves(context):
                raise
            # SystemExit and its like end the run, from the driver: first the loop is handed what
            # has ended beside it, so that it is stored and doesn't run again.
            self.crash = self.crash or error
        else:
            if self._leaves(context):
                self.ended.append(context.task)

    def _leaves(self, context: TaskContext) -> bool:
        """Wakes the driver for a task that has come to its end; not for one that it dropped."""
        if self.wake is None or self.running.pop(context, None) is None:
            return False
        self.wake.set()
        return True

    async def _take(self) -> None:
        assert self.wake is not None
        if self.deadline is None:
            await self.wake.wait()
        else:
            left = max(0.0, self.deadline - time.monotonic())
            try:
                await asyncio.wait_for(self.wake.wait(), left)
            except TimeoutError:
                raise TimeoutError("Timed out") from None
        self.wake.clear()

    def _drain(self) -> Iterator[Chunk]:
        while self.chunks:
            yield self.chunks.popleft()

    async def _cancel(self) -> int:
        running, self.running = self.running, {}
        for task in running.values():
            task.cancel()
        if running:
            await asyncio.gather(*running.values(), return_exceptions=True)
        return len(running)

    def perform_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Makes a saver call for a sync node, which runs on a thread of its own."""
        assert self.home is not None
        if self.loop.run.calls_home:
            return self.loop.run.perform(function, *args)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            called = self.loop.run.saver.acall(function, *args)  # type: ignore[union-attr]
            return asyncio.run_coroutine_threadsafe(called, self.home).result()
        return function(*args)

    def emit(self, chunk: Chunk) -> None:
        """Takes a chunk from a running node, on whatever thread it runs."""
        self.chunks.append(chunk)
        if self.wake is not None and self.home is not None:
            self.home.call_soon_threadsafe(self.wake.set)


def _tells_of_calls(context: TaskContext) -> bool:
    """Tells whether a task has more to tell while it runs than when it has ended."""
    action = context.task.node.action
    return action is not None and action.apart and bool(context.run.modes)


async def _shielded(saving: Any) -> None:
    """Waits for a save even when the run is cancelled: a commit is never left half-waited-for."""
    task = asyncio.ensure_future(saving)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
