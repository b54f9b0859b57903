"""The driver for callers without an event loop: tasks that run side by side have threads."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from typing import Any

from ..attempt import attempt
from ..callbacks import tell
from ..checkpoint import BaseCheckpointSaver
from ..context import TaskContext, current, keep, saver_calls
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
from ..nodes import Action
from ..plan import Task
from ..stream import Chunk
from ..timeouts import Watch, check_stoppable
from ..types import TimeoutPolicy
from .calling import as_failure, injected

#: As many as the standard library starts by itself.
MOST_THREADS = min(32, (os.cpu_count() or 1) + 4)
#: How long a thread may be busy, in seconds, before another one takes waiting tasks.
_PATIENCE = 0.001


def ask(query: Query, saver: BaseCheckpointSaver) -> Any:
    """Performs a look at, or a change of, what is stored; returns its result."""
    reply: Any = None
    try:
        effect = next(query)
        while True:
            try:
                reply = answer_from(effect, saver)
            except BaseException as error:
                effect = query.throw(error)
            else:
                effect = query.send(reply)
    except StopIteration as done:
        return done.value


def answer_from(effect: Load | List | Save | Call, saver: BaseCheckpointSaver) -> Any:
    if isinstance(effect, Load):
        return saver.get_tuple(effect.config)
    if isinstance(effect, List):
        return list(
            saver.list(
                effect.config, filter=effect.filter, before=effect.before, limit=effect.limit
            )
        )
    if isinstance(effect, Save):
        return saver.commit(effect.commit)
    if effect.action.is_async:
        raise TypeError(f"{effect.action.name} is async; use the a... form of this call.")
    return effect.action.call(effect.value)


def call_here(context: TaskContext, call: Call) -> Any:
    action = call.action
    if action.is_async:
        if action.sync is None:
            return _run_async(context, action, call.value)
        action = action.sync
    around = context.run.around_call
    if around is None:
        return _called(context, action, call.value)
    with around(context.task.name):
        return _called(context, action, call.value)


def _called(context: TaskContext, action: Action, value: Any) -> Any:
    if action.injected:
        return action.call(value, **injected(context, action))
    return action.call(value)


def _stands_apart(context: TaskContext, threads: int) -> bool:
    """Tells whether a task needs a thread even where it is alone.

    It does where it brings an event loop, and where it may wait for tasks that it starts: the
    driver's own thread has to stay free for saver calls.
    """
    node = context.task.node
    action = node.action
    if action is None:
        return False
    if action.apart:
        return threads > 1 or action.is_async
    return action.is_async and (action.sync is None or node.timeout is not None)


def _run_async(context: TaskContext, action: Action, value: Any) -> Any:
    """Runs an async function to its end on an event loop of its own.

    That is how a worker runs async nodes.
    """
    _refuse_loop(context)
    return asyncio.run(_awaited(context, action.call(value, **injected(context, action))))


def _call_within(limit: TimeoutPolicy, context: TaskContext) -> Callable[[TaskContext, Call], Any]:
    """Returns what makes the calls of a task that has a timeout."""
    watch = Watch(limit, context, _started)

    def make(context: TaskContext, call: Call) -> Any:
        if call.action.is_async:
            _refuse_loop(context)
            return asyncio.run(_awaited(context, watch.call(call)))
        if call.action is context.task.node.action:
            check_stoppable(context.task.name, call.action)
        return call_here(context, call)

    return make


def _started(context: TaskContext, call: Call) -> Awaitable[Any]:
    running: Awaitable[Any] = call.action.call(call.value, **injected(context, call.action))
    return running


def _refuse_loop(context: TaskContext) -> None:
    """Raises TypeError on a thread whose event loop is running, which a node would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise TypeError(
        f"Node '{context.task.name}' is async and an event loop is running on this thread: run "
        "the graph with ainvoke or astream."
    )


async def _awaited(context: TaskContext, running: Awaitable[Any]) -> Any:
    try:
        return await running
    finally:
        if context.calls is not None:
            await context.calls.wait()


def _wait(context: TaskContext, wait: Wait) -> None:
    """Waits before a task's next attempt; a run that is asked to stop meanwhile stops."""
    if wait.commit is not None:
        keep(context, wait.commit)
    control = context.run.control
    if control is None:
        time.sleep(wait.seconds)
    elif control.wait(wait.seconds):
        raise DrainSignal


def perform(context: TaskContext) -> Task:
    """Runs one task to its end on this thread."""
    token = current.set(context)
    steps = attempt(context)
    limit = context.task.node.timeout
    call = call_here if limit is None else _call_within(limit, context)
    reply: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if type(step) is Call:
                    reply = call(context, step)
                else:
                    _wait(context, step)  # type: ignore[arg-type]
                    reply = None
            except BaseException as error:
                step = steps.throw(as_failure(context, error))
            else:
                step = steps.send(reply)
    except StopIteration:
        if context.calls is not None:
            context.calls.settle()
            context.calls = None
        return context.task
    finally:
        current.reset(token)


class SyncDriver:
    """Drives a loop from the calling thread, with a pool for tasks that run side by side."""

    #: It has no event loop, on which a task could run for sync code.
    home: asyncio.AbstractEventLoop | None = None

    def __init__(self, loop: Loop, max_concurrency: int | None = None) -> None:
        self.loop = loop
        self.guard = saver_calls if loop.run.within else nullcontext
        self.ended: list[Task] = []
        #: Tasks that have ended on a thread of the pool, and what other threads ask of this one;
        #: None only wakes it.
        self.finished: deque[Task] = deque()
        self.inbox: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.chunks: list[Chunk] = []
        self.pool: ThreadPoolExecutor | None = None
        self.limit = max_concurrency or MOST_THREADS
        self.futures: list[Future[None]] = []
        #: Tasks that no thread has taken yet; each runs in a copy of ``place``.
        self.waiting: deque[TaskContext] = deque()
        self.place: contextvars.Context | None = None
        #: When more threads start, by the monotonic clock, and how many have.
        self.hire_at = 0.0
        self.hired = 0
        #: The processor clocks of the threads at work; what they had used, and the number of tasks
        #: that were left, at the last look.
        self.clocks: list[int] = []
        self.used, self.left = 0.0, 0
        #: The thread that drives, once there are others.
        self.thread: int | None = None
        #: What ended a task that was no failure of its node.
        self.crash: BaseException | None = None
        #: When the running tasks have to be done, by the monotonic clock.
        self.deadline: float | None = None

    def __iter__(self) -> Iterator[Chunk]:
        """Performs the loop's effects; yields what the run emits."""
        effects = self.loop.effects()
        reply: Any = None
        try:
            effect = next(effects)
            while True:
                kind = type(effect)
                try:
                    if kind is Run:
                        self._start(effect.contexts)  # type: ignore[union-attr]
                        reply, self.ended = self.ended, []
                    elif kind is Await:
                        while not self.ended and self.crash is None:
                            yield from self._take()
                        if not self.ended:
                            raise self.crash  # type: ignore[misc]
                        reply, self.ended = self.ended, []
                    elif kind is Save:
                        with self.guard():
                            self.loop.run.perform(self.loop.run.saver.commit, effect.commit)  # type: ignore[union-attr]
                        reply = None
                    elif kind is Emit:
                        yield from effect.chunks  # type: ignore[union-attr]
                        reply = None
                    elif kind is Cancel:
                        reply = self._cancel()
                    elif kind is RunBeside:
                        self._start(effect.contexts, beside=True)  # type: ignore[union-attr]
                        reply, self.ended = self.ended, []
                    elif kind is Recall:
                        reply = self.loop.graph.cache.get(effect.keys)  # type: ignore[union-attr]
                    elif kind is Keep:
                        reply = self.loop.graph.cache.set(effect.pairs)  # type: ignore[union-attr]
                    elif kind is Notify:
                        tell(self.loop.run.callbacks, effect.event)  # type: ignore[union-attr]
                        reply = None
                    else:
                        saver = self.loop.run.saver
                        with self.guard():
                            reply = self.loop.run.perform(answer_from, effect, saver)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    effect = effects.throw(error)
                else:
                    if self.chunks:
                        yield from self._drain()
                    effect = effects.send(reply)
        except StopIteration:
            yield from self._drain()
        finally:
            self._close()

    def _start(self, contexts: Sequence[TaskContext], beside: bool = False) -> None:
        timeout = self.loop.graph.step_timeout
        if timeout is not None:
            self.deadline = self.deadline if beside else time.monotonic() + timeout
        elif len(contexts) == 1 and not (
            self.loop.run.live or beside or _stands_apart(contexts[0], self.limit)
        ):
            self.ended.append(perform(contexts[0]))
            return
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.limit, "hitl-task")
            self.thread, self.loop.run.crew = threading.get_ident(), self
        for context in contexts:
            context.perform = self.perform_here
        self.place = contextvars.copy_context()
        self.waiting.extend(contexts)
        self.hired, self.clocks = 0, []
        self.futures = [future for future in self.futures if not future.done()]
        self._hire(1)

    def _hire(self, count: int) -> None:
        """Lets more threads take waiting tasks.

        Tasks that only compute run fastest one after the other, as they can't share the
        interpreter; tasks that wait for something outside should all be waiting. Which they do
        shows within a millisecond: so one thread begins, and the number doubles while tasks are
        left, unless the threads at work get on with them and spend most of their time computing.
        """
        assert self.pool is not None
        self.hired += count
        for _ in range(count):
            self.futures.append(self.pool.submit(self._work_off))
        self._be_patient()

    def _be_patient(self) -> None:
        self.hire_at = time.monotonic() + _PATIENCE
        self.used, self.left = self._time_used(), len(self.waiting)

    def _are_busy(self) -> bool:
        """Tells whether the threads at work have taken tasks and computed since the last look.

        Only both: a task that computes for long, maybe until another has run, holds up no other.
        """
        since = time.monotonic() - self.hire_at + _PATIENCE
        return len(self.waiting) < self.left and self._time_used() - self.used > since / 2

    def _time_used(self) -> float:
        """Returns the processor time that the threads at work have used, in seconds."""
        return sum(map(time.clock_gettime, tuple(self.clocks)))

    def _work_off(self) -> None:
        assert self.place is not None
        if hasattr(time, "pthread_getcpuclockid"):  # not on every system
            self.clocks.append(time.pthread_getcpuclockid(threading.get_ident()))
        while True:
            try:
                context = self.waiting.popleft()
            except IndexError:
                return
            self.place.copy().run(self._work, context)

    def _work(self, context: TaskContext) -> None:
        try:
            task = perform(context)
        except BaseException as error:
            crash = error
            self.inbox.put(lambda: self._crashed(crash))
        else:
            self.finished.append(task)
            if task.error is not None or self.loop.run.modes or not self._looks():
                self.inbox.put(None)

    def _looks(self) -> bool:
        """Tells whether the driver looks by itself for what has ended, as while it hires.

        A driver that is woken by each of many short tasks takes the interpreter from them each
        time; what waits for its look waits a millisecond.
        """
        return bool(self.waiting) and self.hired < self.limit

    def _crashed(self, error: BaseException) -> None:
        # SystemExit and its like end the process: they are raised again on the driver's thread,
        # as a crash, never recorded as the node's failure. First the loop is handed what has
        # ended beside it, so that it is stored and doesn't run again.
        if self.crash is None:
            self.crash = error

    def _take(self) -> Iterator[Chunk]:
        """Waits for a task to end or to ask something of this thread."""
        item = self._get()
        while True:
            if item is not None:
                item()
            if self.inbox.empty():
                break
            item = self.inbox.get()
        while self.finished:
            self.ended.append(self.finished.popleft())
        if self.chunks:
            yield from self._drain()

    def _get(self) -> Callable[[], Any] | None:
        """Waits until a task has ended or another thread asks something."""
        while not self.finished:
            now = time.monotonic()
            if self.waiting and now >= self.hire_at and self.hired < self.limit:
                if self._are_busy():
                    self._be_patient()
                else:
                    self._hire(min(self.hired, len(self.waiting), self.limit - self.hired))
            moments = [self.hire_at] if self._looks() else []
            if self.deadline is not None:
                moments.append(self.deadline)
            try:
                return self.inbox.get(timeout=max(0.0, min(moments) - now) if moments else None)
            except Empty:
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    raise TimeoutError("Timed out") from None
        return None

    def _drain(self) -> Iterator[Chunk]:
        chunks, self.chunks = self.chunks, []
        yield from chunks

    def _cancel(self) -> int:
        dropped = 0
        while True:
            try:
                self.waiting.pop()
            except IndexError:
                return dropped
            dropped += 1

    def emit(self, chunk: Chunk) -> None:
        """Takes a chunk from a running node, on whatever thread it runs."""
        if self.pool is None:
            self.chunks.append(chunk)
        else:
            self.inbox.put(lambda: self.chunks.append(chunk))

    def spawns(self) -> bool:
        """Tells whether the calling thread may wait for another one: the driver's own may not."""
        return threading.get_ident() != self.thread

    def spawn(self, work: Callable[[], None]) -> None:
        """Has a thread of the pool do the work."""
        assert self.pool is not None
        self.futures.append(self.pool.submit(work))

    def perform_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Makes a call on the driver's thread and returns its result to the calling thread."""
        answer: Future[Any] = Future()

        def make() -> None:
            try:
                answer.set_result(self.loop.run.perform(function, *args))
            except BaseException as error:
                answer.set_exception(error)

        self.inbox.put(make)
        return answer.result()

    def _close(self) -> None:
        if self.pool is None:
            return
        self._cancel()
        # A node that is still running may wait for a call to be made on this thread.
        while any(not future.done() for future in self.futures):
            try:
                item = self.inbox.get(timeout=0.05)
                if item is not None:
                    item()
            except Exception:
                continue
        self.pool.shutdown()
