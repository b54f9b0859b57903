"""The driver for callers on an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextvars
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

from ..errors import DrainSignal
from ..loop.effects import (
    Await,
    CacheRead,
    CacheWrite,
    CallStorage,
    Cancel,
    Emit,
    ListCheckpoints,
    LoadCheckpoint,
    Notify,
    Query,
    RunTasks,
    Save,
    SaveAll,
    SaveAsync,
    SaverCall,
    StartTasks,
)
from ..loop.state import LoopState
from ..loop.step import leave_run
from ..savers.checkpoint import BaseCheckpointSaver, Commit
from ..task.ambient_config import AMBIENT_CONFIG
from ..task.callbacks import acall_handlers
from ..task.context import TaskContext, astore_commit, current, saver_calls
from ..task.deferred_commits import DeferredCommits
from ..task.effects import Call, Report, Wait
from ..task.nodes import Action
from ..task.task import Task
from ..task.task_runner import run_task, take_error, take_result
from ..types import Chunk
from .asyncio_pool import AsyncTasks
from .direct import perform_saver_call
from .node_call import convert_error, get_injected
from .task_steps import call_here
from .thread_pool import MAX_THREADS
from .timeouts import AttemptTimer, open_effects


async def arun_query(query: Query, saver: BaseCheckpointSaver) -> Any:
    return await _aperform_effects(query, partial(_perform_saver_call, saver=saver))


async def _aperform_effects(
    effects: Generator[Any, Any, Any], perform: Callable[[Any], Awaitable[Any]]
) -> Any:
    try:
        effect = next(effects)
        while True:
            try:
                reply = await perform(effect)
            except BaseException as error:
                effect = effects.throw(error)
            else:
                effect = effects.send(reply)
    except StopIteration as done:
        return done.value


async def _perform_saver_call(effect: SaverCall | Call, saver: BaseCheckpointSaver) -> Any:
    if isinstance(effect, LoadCheckpoint):
        return await saver.aget_tuple(effect.config)
    if isinstance(effect, ListCheckpoints):
        found = saver.alist(
            effect.config, filter=effect.filter, before=effect.before, limit=effect.limit
        )
        return [saved async for saved in found]
    if isinstance(effect, Save):
        return await saver.acommit(effect.commit)
    if isinstance(effect, SaveAll):
        return await saver.acommit_all(effect.commits)
    if isinstance(effect, CallStorage):
        return await saver.acall(effect.call)
    called = effect.action.call(effect.value)
    return await called if effect.action.is_async else called


def _acall(context: TaskContext, call: Call) -> Awaitable[Any]:
    action = call.action
    if action.is_async:
        given = get_injected(context, action) if action.injected else {}
        awaited: Awaitable[Any] = action.call(call.value, **given)
        return awaited
    variables = contextvars.copy_context()
    running = asyncio.get_running_loop()
    return running.run_in_executor(None, variables.run, call_here, context, action, call.value)


async def _wait(context: TaskContext, wait: Wait) -> None:
    """Wait for the delay before the next attempt of a task.

    Raises:
        DrainSignal: a stop of the run was requested.
    """
    if wait.commit is not None:
        await astore_commit(context, wait.commit)
    control = context.run.control
    if control is None:
        await asyncio.sleep(wait.seconds)
    elif await control.await_(wait.seconds):
        raise DrainSignal


async def aperform_task(context: TaskContext) -> Task:
    control = context.run.control
    if control is None or control.around_task is None:
        return await _perform(context)
    with control.around_task(context):
        return await _perform(context)


async def _perform(context: TaskContext) -> Task:
    token = current.set(context)
    run = context.run
    ambient = run.ambient_config
    outer = None
    if ambient is not None:
        # The call's callbacks belong to the surrounding call, which is known only here.
        outer = ambient.set(AMBIENT_CONFIG if run.trace is None else context.config())
    try:
        action = context.task.node.only
        if action is None or run.trace is not None:
            await _go_through(context)
        else:
            await _call_once(context, action)
        if context.calls is not None:
            await context.calls.asettle()
            context.calls = None
        return context.task
    finally:
        current.reset(token)
        if ambient is not None and outer is not None:
            ambient.reset(outer)
        if context.calls is not None:
            context.calls.drop()


async def _call_once(context: TaskContext, action: Action) -> None:
    try:
        output = await _acall(context, Call(action, context.task.input))
    except BaseException as error:
        take_error(context, convert_error(context, error))
    else:
        take_result(context, output)


async def _go_through(context: TaskContext) -> None:
    steps = run_task(context)
    limit = context.task.node.timeout
    watch = None if limit is None else AttemptTimer(limit, context, _acall)
    reply: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if type(step) is Call:
                    reply = await (_acall(context, step) if watch is None else watch.call(step))
                elif type(step) is Report:
                    reply = await step.tell(*step.arguments, is_async=True)
                else:
                    await _wait(context, step)  # type: ignore[arg-type]
                    reply = None
            except BaseException as error:
                step = steps.throw(convert_error(context, error))
            else:
                step = steps.send(reply)
    except StopIteration:
        return


class AsyncDriver:
    """A driver that runs the engine's loop in a coroutine.

    The tasks of a super-step run in parallel.
    """

    def __init__(self, state: LoopState, max_concurrency: int | None = None) -> None:
        self.state = state
        self.guard = saver_calls() if state.run.within else nullcontext()
        self.limit = max_concurrency or None
        self.chunks: deque[Chunk] = deque()
        #: Runs the tasks of steps that have several tasks.
        self.tasks: AsyncTasks | None = None
        self.event_loop: asyncio.AbstractEventLoop | None = None
        #: OS threads for the @task functions called by sync nodes.
        self.pool: ThreadPoolExecutor | None = None
        state.run.spawner = self

    def iterate_chunks(self) -> AsyncGenerator[Chunk]:
        """Perform the effects that the loop yields, and yield the run's stream chunks."""
        chunks = self._perform_effects()
        self.state.run.stream = weakref.ref(chunks)
        return chunks

    async def _perform_effects(self) -> AsyncGenerator[Chunk]:
        self.event_loop = asyncio.get_running_loop()
        effects = open_effects(self.state)
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                kind = type(effect)
                try:
                    if kind is RunTasks:
                        reply = await self._start(effect.contexts)  # type: ignore[union-attr]
                    elif kind is Await:
                        tasks = self.tasks
                        while not tasks.has_news:  # type: ignore[union-attr]
                            await tasks.wait()  # type: ignore[union-attr]
                            while self.chunks:
                                yield self.chunks.popleft()
                        reply = tasks.take()  # type: ignore[union-attr]
                    elif kind is Save or kind is SaveAsync or kind is SaveAll:
                        reply = await self._ask_saver_shielded(effect)  # type: ignore[arg-type]
                    elif kind is Emit:
                        for chunk in effect.chunks:  # type: ignore[union-attr]
                            yield chunk
                        reply = None
                    elif kind is Cancel:
                        reply = await self.tasks.drop()  # type: ignore[union-attr]
                    elif kind is StartTasks:
                        reply = await self._start(effect.contexts, has_running=True)  # type: ignore[union-attr]
                    elif kind is CacheRead:
                        reply = await self.state.graph.cache.aget(effect.keys)  # type: ignore[union-attr]
                    elif kind is CacheWrite:
                        reply = await self.state.graph.cache.aset(effect.pairs)  # type: ignore[union-attr]
                    elif kind is Notify:
                        await acall_handlers(self.state.run.callbacks, effect.event)  # type: ignore[union-attr]
                        reply = None
                    else:
                        reply = await self._ask_saver(effect)  # type: ignore[arg-type]
                except GeneratorExit:
                    raise
                except BaseException as error:
                    effect = effects.throw(error)
                else:
                    while self.chunks:
                        yield self.chunks.popleft()
                    effect = effects.send(reply)
        except StopIteration:
            while self.chunks:
                yield self.chunks.popleft()
        finally:
            await self._close()

    async def _close(self) -> None:
        """Cancel the running tasks, wait for the commit in progress, then release the lease.

        The lease is the run's lease on its thread. If the run has the durability "exit" and was
        abandoned by its caller, the super-steps of the run are stored before the release.
        """
        ended: Sequence[Task] = ()
        if self.tasks is not None:
            await self.tasks.drop()
            ended = self.tasks.get_ended()
        if self.pool is not None:
            self.pool.shutdown(wait=False)
        deferred = self.state.run.deferred
        if deferred is not None and not self.state.job.nested:
            await _shielded(deferred.aclose())
        if self.state.leaves_unstored:
            await _shielded(_aperform_effects(leave_run(self.state, ended), self._ask_saver))
        if self.state.has_thread_lease:
            await self._ask_saver_shielded(CallStorage(self.state.run.lease.release))  # type: ignore[union-attr]

    def may_wait(self) -> bool:
        """Return True, because the calling OS thread may always wait for another OS thread.

        Sync code, which calls this method, never runs on the OS thread of the event loop.
        """
        return True

    def spawn(self, work: Callable[[], None]) -> None:
        """Run ``work`` on another OS thread."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(MAX_THREADS, "hitl-task")
        self.pool.submit(work)

    async def _ask_saver(self, effect: SaverCall | SaveAsync) -> Any:
        run = self.state.run
        saver: Any = run.saver
        with self.guard:
            if run.deferred is not None:
                if isinstance(effect, SaveAsync):
                    return await self._begin(effect.commit, run.deferred)
                await run.deferred.await_()
            if run.calls_home:
                return await asyncio.to_thread(run.perform, perform_saver_call, effect, saver)
            if saver.answers_at_once:
                return perform_saver_call(effect, saver)  # type: ignore[arg-type]
            return await _perform_saver_call(effect, saver)  # type: ignore[arg-type]

    async def _begin(self, commit: Commit, deferred: DeferredCommits) -> None:
        run = self.state.run
        saver: Any = run.saver
        if run.calls_home:
            await asyncio.to_thread(run.perform, deferred.begin, saver, commit)
        else:
            await deferred.abegin(saver, commit)

    async def _ask_saver_shielded(self, effect: SaverCall | SaveAsync) -> Any:
        run = self.state.run
        if run.saver.answers_at_once and not (run.calls_home or run.deferred):  # type: ignore[union-attr]
            return await self._ask_saver(effect)  # This effect doesn't wait.
        return await _shielded(self._ask_saver(effect))

    async def _start(
        self, contexts: Sequence[TaskContext], has_running: bool = False
    ) -> Sequence[Task]:
        """Start tasks, and return those that have already ended.

        ``has_running`` is true if other tasks of the super-step are running.
        """
        timeout = self.state.graph.step_timeout
        for context in contexts:
            context.perform = self.perform_here
            context.is_async = not self.state.run.calls_home
        if len(contexts) == 1 and not (
            timeout is not None
            or self.state.run.live
            or has_running
            or _emits_while_running(contexts[0])
        ):
            return (await aperform_task(contexts[0]),)
        if self.tasks is None:
            self.tasks = AsyncTasks(self.limit, aperform_task)
        if timeout is not None and not has_running:
            self.tasks.deadline = time.monotonic() + timeout
        self.tasks.take_on(contexts)
        return ()

    def perform_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a saver call on the event loop for a sync node, and return its result.

        The sync node runs on another OS thread.
        """
        assert self.event_loop is not None
        if self.state.run.calls_home:
            return self.state.run.perform(function, *args)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            called = self.state.run.saver.acall(function, *args)  # type: ignore[union-attr]
            return asyncio.run_coroutine_threadsafe(called, self.event_loop).result()
        return function(*args)

    def emit(self, chunk: Chunk) -> None:
        """Add a running node's chunk to the run's stream. Any OS thread may call this method."""
        self.chunks.append(chunk)
        if self.tasks is not None and self.event_loop is not None:
            self.event_loop.call_soon_threadsafe(self.tasks.wake.set)


def _emits_while_running(context: TaskContext) -> bool:
    action = context.task.node.action
    return action is not None and action.apart and bool(context.run.modes)


async def _shielded(saving: Any) -> Any:
    """Wait until data is saved, even if the run is cancelled during the wait."""
    task = asyncio.ensure_future(saving)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
