"""Calls of @task functions: a running task starts other tasks and waits for their results.

The result of a called task is stored before the calling task receives it. If the calling task runs
again after a pause, a failure or a crash, the called task therefore doesn't run again.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import Any

from .. import ids
from ..constants import ERROR, NS_SEP, PUSH, RETURN
from ..errors import GraphInterrupt, PayloadError, annotate
from ..loop import chunks
from ..loop.cached_results import depends_on_people
from ..loop.commit_builder import blame_node, describe_error, list_stored_writes
from ..loop.effects import CacheRead, CacheWrite, RunTasks, Save
from ..loop.node_cache import make_cache_key
from ..loop.state import LoopState
from ..loop.step import build_context
from ..savers.checkpoint import Commit, TaskWrites
from ..task.context import TaskCallsProtocol, TaskContext, saver_calls
from ..task.futures import AnyFuture, CallFuture, get_running_loop, resolve_future
from ..task.nodes import Node
from ..task.task import Task
from ..task.task_status import TaskStatus
from .asyncio_driver import aperform_task
from .task_steps import perform_task

_Effect = RunTasks | Save | CacheRead | CacheWrite


class CalledTask(Task):
    """A task started by a call of a @task function.

    Its path and namespace extend those of the calling task.
    """

    __slots__ = ("_caller_ns",)

    def __init__(self, node: Node, name: str, caller: Task, index: int, value: Any) -> None:
        path = (PUSH, caller.path, index, True)
        super().__init__(name, node, path, (PUSH,), value, caller.origin)
        self._caller_ns = caller.ns

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = ids.make_task_id(
                self.origin.id_bytes,
                self._node_ns(),
                str(self.origin.step),
                self.name,
                PUSH,
                ids.make_path_key(self.path[1]),
                str(self.path[2]),
            )
        return self._id

    def _node_ns(self) -> str:
        return f"{self._caller_ns}{NS_SEP}{self.name}"

    @property
    def returned(self) -> Any:
        """The return value of the @task function."""
        return next(value for name, value in self.writes or () if name == RETURN)


#: Locked while the first call of a task is registered, because a task may use several OS threads.
_FIRST = Lock()


class TaskCalls:
    """The calls of @task functions made by one running task, by id of the called task."""

    __slots__ = ("_attempt", "_contexts", "_index", "_known", "context", "crash", "recalled")

    def __init__(self, context: TaskContext) -> None:
        self.context = context
        self._attempt = 0
        self._index = itertools.count()
        self._known: dict[str, tuple[CalledTask, AnyFuture]] = {}
        #: The contexts of started tasks, by task id.
        self._contexts: dict[str, TaskContext] = {}
        #: An error that ended a called task and isn't a failure of the task's function.
        self.crash: BaseException | None = None
        #: The ids of tasks with cached results.
        self.recalled: set[str] = set()

    @classmethod
    def open(cls, context: TaskContext) -> TaskCallsProtocol:
        """Return the TaskCalls object of a task. The first call creates the object."""
        with _FIRST:
            if context.calls is None:
                context.calls = cls(context)
            return context.calls

    def make(
        self, seen: TaskContext, node: Node, name: str, value: Any, is_async: bool
    ) -> AnyFuture:
        """Start a call of a @task function, and return its future.

        If an earlier attempt of the calling task has made the same call, return the future of the
        earlier call. ``seen`` is the context of the calling code: the context of the calling task,
        or a ``PartContext`` for a part of this task.
        """
        seen.check_in_time()
        self.context = seen.full_context
        self.context.progress()
        if self._attempt != self.context.attempt:
            self._attempt, self._index = self.context.attempt, itertools.count()
        inherited = self._state.graph.retry_policy
        if inherited and not node.retry:
            node = replace(node, retry=inherited)
        on_loop = get_running_loop()
        if is_async and on_loop is None and not self._may_await():
            raise RuntimeError("In an sync context async tasks cannot be called")
        index = seen.next_call_index(self._index)
        task = CalledTask(node, name, self.context.task, index, value)
        state = self._state
        if self.context.run.modes and self.context.run.chunk_buffer is None:
            self._emit(chunks.build_call_chunks(state, task))
        known = self._known.get(task.id)
        if known is not None and known[0].error is None and not known[1].cancelled():
            # An earlier attempt of the caller made the same call.
            task, future = known
            done = future.done() and task.writes is not None
            return resolve_future(task.returned, on_loop) if done else future
        status = state.statuses.get(task.id)
        if status is not None and status.finished:
            task.writes = status.output
            future = resolve_future(task.returned, on_loop)
        else:
            future = self._start(seen, task, on_loop, is_async)
        self._known[task.id] = task, future
        return future

    @property
    def _state(self) -> LoopState:
        state: LoopState = self.context.run.loop_state
        return state

    def _may_await(self) -> bool:
        """Return whether sync code of the calling task may wait for a coroutine."""
        spawner = self.context.run.spawner
        return spawner is not None and spawner.event_loop is not None

    def _start(
        self,
        seen: TaskContext,
        task: CalledTask,
        on_loop: asyncio.AbstractEventLoop | None,
        is_async: bool,
    ) -> AnyFuture:
        run, before = self.context.run, self._contexts.get(task.id)
        # If an earlier attempt of the caller started the task, the task continues with its current
        # memory, which is newer than the stored memory.
        context = (
            TaskContext(task, run, before.copy_memory())
            if before
            else build_context(self._state, task)
        )
        self._contexts[task.id] = context
        context.perform, context.is_async = seen.perform, self.context.is_async
        if on_loop is not None:
            return on_loop.create_task(self._arun(context))
        spawner = run.spawner
        if is_async:
            assert spawner is not None
            assert spawner.event_loop is not None
            return asyncio.run_coroutine_threadsafe(self._arun(context), spawner.event_loop)
        variables = contextvars.copy_context()
        future = CallFuture(lambda: variables.run(self._run, context))
        if spawner is not None and spawner.may_wait() and seen is self.context:
            spawner.spawn(future.run)
        else:
            # This OS thread must not wait for another OS thread, because it makes the saver calls,
            # or because it belongs to a tool that already runs in parallel with others.
            future.run()
        return future

    def _run(self, context: TaskContext) -> Any:
        effects = self._effects(context)
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                try:
                    reply = _perform_effect(context, effect)
                except PayloadError as error:
                    effect = effects.throw(error)
                else:
                    effect = effects.send(reply)
        except StopIteration:
            return self._get_result(context)
        except BaseException as error:
            self.crash = error
            raise

    async def _arun(self, context: TaskContext) -> Any:
        effects = self._effects(context)
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                try:
                    reply = await _aperform_effect(context, effect)
                except PayloadError as error:
                    effect = effects.throw(error)
                else:
                    effect = effects.send(reply)
        except StopIteration:
            return self._get_result(context)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.crash = error
            raise

    def _effects(self, context: TaskContext) -> Generator[_Effect, Any, None]:
        """Yield the effects that execute a called task, unless its cached result can be read."""
        state, task = self._state, context.task
        policy = task.node.cache
        key: Any = None
        if policy and state.graph.cache is not None and not depends_on_people(state, task):
            key = self._key(task)
            if task.error is not None:
                return
        if key is not None:
            found = yield CacheRead([key])
            if key in found:
                task.writes = [(name, value) for name, value in found[key]]
                self.recalled.add(task.id)
        if task.writes is None:
            yield RunTasks([context])
            written = list(context.task.writes or ())
            if policy and key is not None and written:
                try:
                    yield CacheWrite({key: (written, policy.ttl)})
                except PayloadError:
                    # A value that can't be stored may still be valid for a run without a saver.
                    pass
        yield from self._store_result(context)

    def _key(self, task: Task) -> Any:
        try:
            return make_cache_key(task)
        except Exception as error:
            annotate(error, f"Before task with name '{task.name}' and path '{task.path}'")
            task.error = error
            return None

    def _store_result(self, context: TaskContext) -> Generator[_Effect, Any, None]:
        """Yield the effect that stores the result of a called task.

        If the result can't be stored, the called task fails.
        """
        state, task = self._state, context.task
        # Interrupts are stored with the calling task, so that each interrupt appears once.
        writes = task.memory if task.pending_interrupts else list_stored_writes(task)
        described = (
            self._build_stored_chunks(context) if context.run.chunk_buffer is not None else ()
        )
        if state.saver is None or not writes:
            return
        task_writes = TaskWrites(task.id, task.path_key, writes)
        if state.exits:
            state.commits.unsaved.append(task_writes)
            state.commits.chunks += described
            return
        config = state.commits.config_for(task.origin.checkpoint_id)
        try:
            yield state.save(Commit(config, [task_writes], chunks=described))
        except PayloadError as error:
            task.writes, task.error = None, blame_node(error, task.name, writes)
            failure = [(ERROR, describe_error(task.error)), *task.memory]
            yield state.save(Commit(config, [TaskWrites(task.id, task.path_key, failure)]))

    def _get_result(self, context: TaskContext) -> Any:
        """Return the result of an ended task, or raise its error.

        The stream chunks for the end of the task are emitted first.
        """
        task = context.task
        assert isinstance(task, CalledTask)
        self.context.progress()
        if task.pending_interrupts:
            raise GraphInterrupt(task.pending_interrupts)
        if self.context.run.modes and self.context.run.chunk_buffer is None:
            self._emit(self._build_end_chunks(context))
        if task.error is not None:
            raise task.error
        # The caller may itself be a called task that is retried.
        self._state.statuses[task.id] = TaskStatus.ended(task.writes or ())
        return task.returned

    def _build_end_chunks(self, context: TaskContext) -> list[Any]:
        if context.task.id in self.recalled:
            return chunks.build_cached_chunks(self._state, context.task)
        return chunks.build_task_chunks(self._state, context.task)

    def _build_stored_chunks(self, context: TaskContext) -> list[Any]:
        """Return the stream chunks of a called task that are stored with its result.

        The chunks for the start and the end of the task are included.
        """
        state, task = self._state, context.task
        if state.saver is None or task.pending_interrupts:
            state.run.chunk_buffer.move_chunks(task.id, self.context.task.id)  # type: ignore[union-attr]
            return []
        return [*chunks.build_call_chunks(state, task), *self._build_end_chunks(context)]

    def _emit(self, emitted: list[Any]) -> None:
        for chunk in emitted:
            self.context.run.emit(chunk)

    def settle(self) -> None:
        """Wait until the called tasks have ended, and add their interrupts to the calling task."""
        for _, future in list(self._known.values()):
            if isinstance(future, Future) and not future.cancelled():
                future.exception()
        self._merge()

    async def asettle(self) -> None:
        await self.wait()
        if any(isinstance(future, Future) for _, future in self._known.values()):
            await asyncio.to_thread(self.settle)
        else:
            self._merge()

    async def wait(self) -> None:
        running = [f for _, f in self._known.values() if isinstance(f, asyncio.Future)]
        if running:
            await asyncio.wait(running)
        for future in running:
            if not future.cancelled():
                future.exception()  # This marks the exception as retrieved.

    def drop(self) -> None:
        """Cancel the called tasks that are still running on the event loop."""
        for _, future in self._known.values():
            if isinstance(future, asyncio.Future):
                future.cancel()

    def _merge(self) -> None:
        """Add the interrupts of called tasks to the calling task, in the order of the calls.

        This is done even if the calling task has returned without waiting for the results.
        Otherwise, the run would continue without a decision.
        """
        if self.crash is not None:
            raise self.crash
        caller = self.context.task
        raised = [
            pending for task, _ in self._known.values() for pending in task.pending_interrupts
        ]
        if caller.error is not None:
            return
        if not raised:
            self._add_pushed(caller)
            return
        if caller.writes is not None:
            caller.writes, caller.memory = None, self.context.list_memory_writes()
        caller.pending_interrupts = tuple(
            {q.interrupt.id: q for q in (*raised, *caller.pending_interrupts)}.values()
        )

    def _add_pushed(self, caller: Task) -> None:
        channels = caller.origin.spec.channels
        ended = [task for task, _ in self._known.values() if len(task.writes or ()) > 1]
        pushed = [write for task in ended for write in task.writes or () if write[0] in channels]
        if pushed and caller.writes is not None:
            caller.writes = [*caller.writes, *pushed]


def _perform_effect(context: TaskContext, effect: _Effect) -> Any:
    run = context.run
    if isinstance(effect, RunTasks):
        return perform_task(context)
    if isinstance(effect, Save):
        with saver_calls():
            return context.perform(run.commit, effect.commit)
    cache: Any = run.loop_state.graph.cache
    return cache.get(effect.keys) if isinstance(effect, CacheRead) else cache.set(effect.pairs)


async def _aperform_effect(context: TaskContext, effect: _Effect) -> Any:
    if isinstance(effect, RunTasks):
        return await aperform_task(context)
    if isinstance(effect, Save):
        with saver_calls():
            if context.is_async:
                return await context.run.acommit(effect.commit)
            return await asyncio.to_thread(context.perform, context.run.commit, effect.commit)
    cache: Any = context.run.loop_state.graph.cache
    if isinstance(effect, CacheRead):
        return await cache.aget(effect.keys)
    return await cache.aset(effect.pairs)
