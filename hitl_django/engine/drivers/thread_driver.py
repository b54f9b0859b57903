"""The driver for callers without an event loop: tasks that run side by side have threads."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

from ..loop.effects import (
    Await,
    CacheRead,
    CacheWrite,
    CallStorage,
    Cancel,
    Effect,
    Emit,
    Notify,
    RunTasks,
    Save,
    SaveAsync,
    StartTasks,
)
from ..loop.state import LoopState
from ..loop.step import leave_run, take_in
from ..task.callbacks import call_handlers
from ..task.context import TaskContext, saver_calls
from ..task.task import Task
from ..types import Chunk
from .direct import perform_effects, perform_saver_call
from .task_steps import perform_task
from .thread_pool import MOST_THREADS, TaskThreads
from .timeouts import open_effects
from .watchdog import watchdog

#: How long the driver runs one task after the other, in seconds, before the loop takes them in.
_SPELL = 0.01
#: The effects during which tasks run.
_RUNNING = (RunTasks, StartTasks, Await)


class SyncDriver:
    """Drives a loop from the calling thread, with others for tasks that run side by side.

    Where nobody listens and the saver takes calls from any thread, the calling thread runs such
    tasks itself, one after the other. Should one hold it up, a ``deputy`` on another thread drives
    meanwhile: has threads take the waiting tasks, and has the loop take in what has ended.
    """

    #: It has no event loop, on which a task could run for sync code.
    home: asyncio.AbstractEventLoop | None = None
    #: Made for the first step whose tasks run side by side.
    threads: TaskThreads | None = None
    #: The thread that drives, once there may be others.
    thread: int | None = None
    #: Whether the driver's own thread takes waiting tasks; whether it is running one.
    joins = at_work = False
    deputy: Future[None] | None = None
    #: Whether a deputy has had the loop take in the last of a step's tasks.
    settled = False

    def __init__(self, state: LoopState, max_concurrency: int | None = None) -> None:
        self.state = state
        self.guard = saver_calls() if state.run.within else nullcontext()
        self.limit = max_concurrency or MOST_THREADS
        self.ended: list[Task] = []
        #: What nodes emit, on whatever thread they run.
        self.chunks: deque[Chunk] = deque()

    def __iter__(self) -> Iterator[Chunk]:
        """Perform the loop's effects; yields what the run emits."""
        chunks = self._perform_effects()
        self.state.run.stream = weakref.ref(chunks)
        return chunks

    def _perform_effects(self) -> Generator[Chunk]:
        effects = open_effects(self.state)
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                kind = type(effect)
                try:
                    if kind is RunTasks:
                        reply = self._start(effect.contexts)  # type: ignore[union-attr]
                    elif kind is Await:
                        yield from self._await()
                        reply, self.ended = self.ended, []
                    elif kind is Save:
                        with self.guard:
                            self.state.run.perform(self.state.run.commit, effect.commit)  # type: ignore[union-attr]
                        reply = None
                    elif kind is Emit:
                        yield from effect.chunks  # type: ignore[union-attr]
                        reply = None
                    else:
                        reply = self._perform(effect)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    if self.state.run.control is not None:
                        # Before any running task is waited for: the process may be killed then.
                        nodes = self._list_running() if kind in _RUNNING else ()
                        self.state.run.control.note_stop(error, nodes)
                    effect = effects.throw(error)
                else:
                    if self.chunks:
                        yield from self._drain()
                    effect = effects.send(reply)
        except StopIteration:
            if self.chunks:
                yield from self._drain()
        finally:
            self._close()

    def _close(self) -> None:
        """Wait for the tasks that are still running, and store what has to be."""
        ended = self.ended
        if self.threads is not None:
            self.threads.close()
            ended += self.threads.ended()
        if self.state.run.deferred is not None and not self.state.job.nested:
            self.state.run.deferred.close()
        if self.state.leaves_unstored:
            perform_effects(leave_run(self.state, ended), self._perform)
        if self.state.holds_thread:
            self._perform(CallStorage(self.state.run.lease.release))  # type: ignore[union-attr]

    def _list_running(self) -> list[str]:
        waiting = [] if self.threads is None else [one.task for one in self.threads.waiting]
        return [
            task.name
            for task in self.state.tasks
            if task.writes is None and task.error is None and not task.pending_interrupts
            if task not in waiting
        ]

    def _perform(self, effect: Effect) -> Any:
        """Perform an effect that is neither waited for nor emitted; returns the reply."""
        kind, run = type(effect), self.state.run
        if kind is Cancel:
            return self._drop()
        if kind is StartTasks or kind is RunTasks:
            return self._start(effect.contexts, beside=True)  # type: ignore[union-attr]
        if kind is CacheRead:
            return self.state.graph.cache.get(effect.keys)  # type: ignore[union-attr]
        if kind is CacheWrite:
            return self.state.graph.cache.set(effect.pairs)  # type: ignore[union-attr]
        if kind is Notify:
            return call_handlers(run.callbacks, effect.event)  # type: ignore[union-attr]
        with self.guard:
            if run.deferred is not None:
                if kind is SaveAsync:
                    return run.perform(run.deferred.begin, run.saver, effect.commit)  # type: ignore[union-attr]
                run.deferred.wait()
            return run.perform(perform_saver_call, effect, run.saver)

    def _start(self, contexts: Sequence[TaskContext], beside: bool = False) -> Sequence[Task]:
        """Start tasks; returns those that have ended already."""
        timeout = self.state.graph.step_timeout
        if (
            timeout is None
            and len(contexts) == 1
            and not (self.state.run.live or beside or _stands_apart(contexts[0], self.limit))
        ):
            return (perform_task(contexts[0]),)
        if self.threads is None:
            run = self.state.run
            leave = None if run.saver is None else run.saver.leave_thread
            self.threads = TaskThreads(
                self.limit, perform_task, reports_each=bool(run.modes), leave=leave
            )
            self.thread = threading.get_ident()
        if not beside:
            self.joins, self.settled = self._may_join(contexts), False
        self.threads.take_on(contexts)
        if self.joins:
            if self.deputy is None:
                self._work()
            ended, self.ended = self.ended, []
            return ended
        if timeout is not None and not beside:
            self.threads.deadline = time.monotonic() + timeout
        self.state.run.spawner = self
        for context in contexts:
            context.perform = self.perform_here
        self.threads.begin()
        return ()

    def _may_join(self, contexts: Sequence[TaskContext]) -> bool:
        """Return whether the driver's own thread may run tasks that have siblings."""
        run = self.state.run
        if run.live or run.modes or self.limit < 2 or self.state.graph.step_timeout is not None:
            return False
        if run.saver is not None and run.saver.thread_bound:
            return False
        node = None
        for context in contexts:
            # Mostly they are all of one node, so it costs next to nothing to ask.
            if context.task.node is not node:
                node = context.task.node
                if node.timeout is not None or _stands_apart(context, self.limit):
                    return False
        return True

    def _work(self) -> None:
        """Run waiting tasks on this thread, until it is time that the loop takes in what ended."""
        threads, ends = self.threads, time.monotonic() + _SPELL
        assert threads is not None
        assert threads.variables is not None
        threads.join()
        self.at_work = True
        watchdog.add(self)
        try:
            while self.deputy is None and threads.waiting:
                try:
                    context = threads.waiting.popleft()
                except IndexError:
                    continue  # the deputy's threads take tasks, too
                task = threads.variables.copy().run(perform_task, context)
                threads.finished.append(task)
                if task.error is not None or time.monotonic() >= ends:
                    break
        except BaseException as error:
            threads.crashed(error)
        finally:
            watchdog.remove(self)
            with threads.appointing:
                self.at_work = False
        if self.deputy is not None:
            self._relieve(self.deputy)
        self.ended += threads.ended()

    def monitor(self) -> None:
        """Appoint a deputy where a task holds up the driver's thread, and that matters."""
        threads = self.threads
        assert threads is not None
        with threads.appointing:
            if not self.at_work or self.deputy is not None:
                return
            unsaved = threads.finished and self.state.saver is not None
            if (threads.waiting or unsaved) and threads.are_blocked():
                self.state.run.spawner = self
                self.deputy = threads.spawn(self._stand_in)

    def _stand_in(self) -> None:
        """Drive until the driver's own thread is back."""
        threads = self.threads
        assert threads is not None
        # It may be faster than who appoints it. Whoever then took it for the driver's own thread
        # would have it run tasks, and at their end wait for itself.
        with threads.appointing:
            pass
        while self.at_work:
            if ended := threads.take():
                perform_effects(take_in(self.state, ended), self._perform)

    def _relieve(self, deputy: Future[None]) -> None:
        """Take over again from the deputy; from now on the step's tasks are left to others."""
        assert self.threads is not None
        self.threads.inbox.put(None)
        self.joins = False
        try:
            deputy.result()
        finally:
            self.deputy = None
        self.settled = not self.state.running

    def _await(self) -> Iterator[Chunk]:
        """Wait for tasks to end."""
        threads = self.threads
        assert threads is not None
        while not (self.ended or self.settled) and threads.crash is None:
            if self.joins:
                self._work()
            else:
                self.ended += threads.take()
            if self.chunks:
                yield from self._drain()
        if threads.crash is not None and not self.ended:
            raise threads.crash

    def _drain(self) -> Iterator[Chunk]:
        while self.chunks:
            yield self.chunks.popleft()

    def _drop(self) -> int:
        return 0 if self.threads is None else self.threads.drop()

    def emit(self, chunk: Chunk) -> None:
        """Take a chunk from a running node, on whatever thread it runs."""
        self.chunks.append(chunk)
        # What lies there already wakes who looks; and nobody may look before the next wide step.
        if self.threads is not None and self.threads.inbox.empty():
            self.threads.inbox.put(None)

    def spawns(self) -> bool:
        """Return whether the calling thread may wait for another one: the driver's own may not."""
        return threading.get_ident() != self.thread

    def spawn(self, work: Callable[[], None]) -> None:
        """Has a thread of the pool do the work."""
        assert self.threads is not None
        self.threads.spawn(work)

    def perform_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a call on the driver's thread and return its result to the calling thread."""
        assert self.threads is not None
        return self.threads.ask(self.state.run.perform, function, *args)


def _stands_apart(context: TaskContext, threads: int) -> bool:
    """Return whether a task needs a thread even where it is alone.

    It does where it brings an event loop, and where it may wait for tasks that it starts: the
    driver's own thread has to stay free for saver calls.
    """
    node = context.task.node
    action = node.action
    if action is None or node.plain is not None:
        return False
    if action.apart:
        return threads > 1 or action.is_async
    return action.is_async and (action.sync is None or node.timeout is not None)
