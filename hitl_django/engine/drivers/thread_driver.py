"""The driver for callers without an event loop. It runs parallel tasks on OS threads."""

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
from .thread_pool import MAX_THREADS, TaskThreads
from .timeouts import open_effects
from .watchdog import watchdog

#: Seconds for which the driver runs queued tasks before the loop processes the ended tasks.
_RUN_SECONDS = 0.01
#: The effects during which tasks run.
_RUNNING = (RunTasks, StartTasks, Await)


class SyncDriver:
    """A driver that runs the engine's loop on the calling OS thread.

    Parallel tasks run on other OS threads, or one after the other on the calling OS thread (see
    ``_may_join``). If a task blocks the calling OS thread, another OS thread becomes the
    ``deputy``. The deputy starts OS threads for the queued tasks, and lets the loop process ended
    tasks.
    """

    #: There is no event loop that could run an async task for sync code.
    event_loop: asyncio.AbstractEventLoop | None = None
    #: Created for the first step that has parallel tasks.
    threads: TaskThreads | None = None
    #: The id of the driver's OS thread, set when other OS threads may exist.
    thread: int | None = None
    #: ``joins``: the driver's OS thread runs queued tasks. ``at_work``: it is running a task now.
    joins = at_work = False
    deputy: Future[None] | None = None
    #: Whether a deputy has processed the last task of a step.
    settled = False

    def __init__(self, state: LoopState, max_concurrency: int | None = None) -> None:
        self.state = state
        self.guard = saver_calls() if state.run.within else nullcontext()
        self.limit = max_concurrency or MAX_THREADS
        self.ended: list[Task] = []
        #: Stream chunks of nodes, added by any OS thread.
        self.chunks: deque[Chunk] = deque()

    def __iter__(self) -> Iterator[Chunk]:
        """Perform the effects that the loop yields, and yield the run's stream chunks."""
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
                        # The nodes are listed before waiting for running tasks, because the process
                        # may be killed meanwhile.
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
        """Wait for the running tasks and the commit in progress, then release the lease of the run.

        If the caller has abandoned a run with durability "exit", the super-steps of the run are
        stored before the lease is released.
        """
        ended = self.ended
        if self.threads is not None:
            self.threads.close()
            ended += self.threads.ended()
        if self.state.run.deferred is not None and not self.state.job.nested:
            self.state.run.deferred.close()
        if self.state.leaves_unstored:
            perform_effects(leave_run(self.state, ended), self._perform)
        if self.state.has_thread_lease:
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
        """Perform an effect that neither waits nor emits chunks, and return its result."""
        kind, run = type(effect), self.state.run
        if kind is Cancel:
            return self._drop()
        if kind is StartTasks or kind is RunTasks:
            return self._start(effect.contexts, has_running=True)  # type: ignore[union-attr]
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

    def _start(self, contexts: Sequence[TaskContext], has_running: bool = False) -> Sequence[Task]:
        """Start tasks, and return those that have already ended.

        ``has_running`` is true if other tasks of the super-step are running.
        """
        timeout = self.state.graph.step_timeout
        if (
            timeout is None
            and len(contexts) == 1
            and not (self.state.run.live or has_running or _needs_thread(contexts[0], self.limit))
        ):
            return (perform_task(contexts[0]),)
        if self.threads is None:
            run = self.state.run
            leave = None if run.saver is None else run.saver.leave_thread
            self.threads = TaskThreads(
                self.limit, perform_task, reports_each=bool(run.modes), leave=leave
            )
            self.thread = threading.get_ident()
        if not has_running:
            self.joins, self.settled = self._may_join(contexts), False
        self.threads.take_on(contexts)
        if self.joins:
            if self.deputy is None:
                self._work()
            ended, self.ended = self.ended, []
            return ended
        if timeout is not None and not has_running:
            self.threads.deadline = time.monotonic() + timeout
        self.state.run.spawner = self
        for context in contexts:
            context.perform = self.perform_here
        self.threads.begin()
        return ()

    def _may_join(self, contexts: Sequence[TaskContext]) -> bool:
        """Return whether the driver's OS thread may itself run tasks of a parallel super-step."""
        run = self.state.run
        if run.live or run.modes or self.limit < 2 or self.state.graph.step_timeout is not None:
            return False
        if run.saver is not None and run.saver.thread_bound:
            return False
        node = None
        for context in contexts:
            # All tasks usually have the same node, so this check is cheap.
            if context.task.node is not node:
                node = context.task.node
                if node.timeout is not None or _needs_thread(context, self.limit):
                    return False
        return True

    def _work(self) -> None:
        """Run queued tasks on this OS thread until the loop has to process the ended tasks."""
        threads, ends = self.threads, time.monotonic() + _RUN_SECONDS
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
                    continue  # The deputy's OS threads also take tasks.
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
            self._end_deputy(self.deputy)
        self.ended += threads.ended()

    def monitor(self) -> None:
        """Check whether a task blocks the driver's OS thread while other work is waiting.

        If so, another OS thread, the deputy, continues the driver's work. Waiting work consists of
        queued tasks, and of ended tasks that aren't stored yet.
        """
        threads = self.threads
        assert threads is not None
        with threads.appointing:
            if not self.at_work or self.deputy is not None:
                return
            unsaved = threads.finished and self.state.saver is not None
            if (threads.waiting or unsaved) and threads.are_blocked():
                self.state.run.spawner = self
                self.deputy = threads.spawn(self._act_as_deputy)

    def _act_as_deputy(self) -> None:
        threads = self.threads
        assert threads is not None
        # Wait until the deputy is registered. Otherwise, the deputy could be mistaken for the
        # driver's OS thread and wait for itself.
        with threads.appointing:
            pass
        while self.at_work:
            if ended := threads.take():
                perform_effects(take_in(self.state, ended), self._perform)

    def _end_deputy(self, deputy: Future[None]) -> None:
        """End the work of the deputy, the OS thread that replaces the driver's blocked OS thread.

        For the rest of the super-step, the driver's OS thread doesn't run tasks, so no task can
        block it again.
        """
        assert self.threads is not None
        self.threads.inbox.put(None)
        self.joins = False
        try:
            deputy.result()
        finally:
            self.deputy = None
        self.settled = not self.state.running

    def _await(self) -> Iterator[Chunk]:
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
        """Add a running node's chunk to the run's stream. Any OS thread may call this method."""
        self.chunks.append(chunk)
        # An item in the inbox already wakes the waiting OS thread. Before the next step with
        # parallel tasks, no OS thread reads the inbox.
        if self.threads is not None and self.threads.inbox.empty():
            self.threads.inbox.put(None)

    def may_wait(self) -> bool:
        """Return whether the calling OS thread may wait for another OS thread.

        The driver's own OS thread must not wait.
        """
        return threading.get_ident() != self.thread

    def spawn(self, work: Callable[[], None]) -> None:
        """Run ``work`` on an OS thread of the pool."""
        assert self.threads is not None
        self.threads.spawn(work)

    def perform_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function`` on the driver's OS thread, and wait for its result."""
        assert self.threads is not None
        return self.threads.ask(self.state.run.perform, function, *args)


def _needs_thread(context: TaskContext, threads: int) -> bool:
    """Return whether a task needs a separate OS thread even if the super-step has no other task.

    A task needs a separate OS thread if it needs an event loop or may wait for tasks that it
    starts. The driver's OS thread must then remain free for saver calls.
    """
    node = context.task.node
    action = node.action
    if action is None or node.plain is not None:
        return False
    if action.apart:
        return threads > 1 or action.is_async
    return action.is_async and (action.sync is None or node.timeout is not None)
