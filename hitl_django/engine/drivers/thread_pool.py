"""Threads for the tasks of a step that run side by side, more of them the longer tasks wait."""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

from ..task.context import TaskContext
from ..task.task import Task

#: As many as the standard library starts by itself.
MOST_THREADS = min(32, (os.cpu_count() or 1) + 4)
#: How long a thread may be busy, in seconds, before another one takes waiting tasks.
PATIENCE = 0.001

Perform = Callable[[TaskContext], Task]


class TaskThreads:
    """The threads of one run, the tasks that wait for one, and what the threads report.

    One thread at a time calls its methods, but for ``spawn``, ``ask`` and ``crashed``: the
    driver's, or the one that stands in for it.
    """

    def __init__(
        self,
        limit: int,
        perform: Perform,
        *,
        reports_each: bool,
        leave: Callable[[], None] | None = None,
    ) -> None:
        self.limit, self._perform, self._reports_each = limit, perform, reports_each
        #: What a thread does when it has no more work.
        self._leave = leave
        #: Tasks that no thread has taken yet; each runs with a copy of ``variables``.
        self.waiting: deque[TaskContext] = deque()
        self.variables: contextvars.Context | None = None
        #: Tasks that have ended, and what other threads ask of the one that looks after them; None
        #: only wakes it.
        self.finished: deque[Task] = deque()
        self.inbox: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        #: What ended a task that was no failure of its node.
        self.crash: BaseException | None = None
        #: When the running tasks have to be done, by the monotonic clock.
        self.deadline: float | None = None
        #: Held to appoint who stands in for the driver, and to see whether somebody does.
        self.appointing = threading.Lock()
        #: Held to ask, and to end: whoever asks is answered, or told that nobody answers any more.
        self._ending, self._is_over = threading.Lock(), False
        self._pool: ThreadPoolExecutor | None = None
        self._futures: list[Future[None]] = []
        #: When more threads start, by the monotonic clock, and how many have.
        self._hire_at = 0.0
        self._hired = 0
        #: The processor clocks of the threads at work; what they had used, and the number of tasks
        #: that were left, at the last look.
        self._clocks: list[int] = []
        self._used, self._left = 0.0, 0

    def take_on(self, contexts: Sequence[TaskContext]) -> None:
        """Has tasks wait for a thread."""
        self.variables = contextvars.copy_context()
        self.waiting.extend(contexts)
        self._hired, self._clocks = 0, []
        self._futures = [future for future in self._futures if not future.done()]

    def begin(self) -> None:
        """Let a first thread take waiting tasks."""
        self._hire(1)

    def join(self) -> None:
        """Has the calling thread be the first that takes waiting tasks."""
        self._clocks = []
        self._note_clock()
        self._be_patient()

    def are_blocked(self) -> bool:
        """Return whether the threads at work have been left alone and still don't get on."""
        if time.monotonic() < self._hire_at:
            return False
        if self._are_busy():
            self._be_patient()
            return False
        return True

    def spawn(self, work: Callable[[], None]) -> Future[None]:
        """Has a thread of the pool do the work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.limit, "hitl-task")
        if self._leave is None:
            future = self._pool.submit(work)
        else:
            future = self._pool.submit(self._work_and_leave, work)
        self._futures.append(future)
        return future

    def _work_and_leave(self, work: Callable[[], None]) -> None:
        assert self._leave is not None
        try:
            work()
        finally:
            self._leave()

    def _hire(self, count: int) -> None:
        """Let more threads take waiting tasks.

        Tasks that only compute run fastest one after the other, as they can't share the
        interpreter; tasks that wait for something outside should all be waiting. Which they do
        shows within a millisecond: so one thread begins, and the number doubles while tasks are
        left, unless the threads at work get on with them and spend most of their time computing.
        """
        self._hired += count
        for _ in range(count):
            self.spawn(self._work_off)
        self._be_patient()

    def _be_patient(self) -> None:
        """Leave the threads at work alone for a while."""
        self._hire_at = time.monotonic() + PATIENCE
        self._used, self._left = self._time_used(), len(self.waiting)

    def _are_busy(self) -> bool:
        """Return whether the threads at work have taken tasks and computed since the last look.

        Only both: a task that computes for long, maybe until another has run, holds up no other.
        """
        since = time.monotonic() - self._hire_at + PATIENCE
        return len(self.waiting) < self._left and self._time_used() - self._used > since / 2

    def _time_used(self) -> float:
        """Return the processor time that the threads at work have used, in seconds."""
        return sum(map(time.clock_gettime, tuple(self._clocks)))

    def _note_clock(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):  # not on every system
            self._clocks.append(time.pthread_getcpuclockid(threading.get_ident()))

    def _work_off(self) -> None:
        assert self.variables is not None
        self._note_clock()
        while True:
            try:
                context = self.waiting.popleft()
            except IndexError:
                return
            self.variables.copy().run(self._work, context)

    def _work(self, context: TaskContext) -> None:
        try:
            task = self._perform(context)
        except BaseException as error:
            crash = error
            self.inbox.put(lambda: self.crashed(crash))
        else:
            self.finished.append(task)
            if task.error is not None or self._reports_each or not self._looks():
                self.inbox.put(None)

    def _looks(self) -> bool:
        """Return whether the driver looks by itself for what has ended, as while it hires.

        A driver that is woken by each of many short tasks takes the interpreter from them each
        time; what waits for its look waits a millisecond.
        """
        return bool(self.waiting) and self._hired < self.limit

    def crashed(self, error: BaseException) -> None:
        """Note what ends the process, like SystemExit.

        It is raised again on the driver's thread, as a crash, never recorded as the node's
        failure. First the loop is handed what has ended beside it, so that it is stored and
        doesn't run again.
        """
        if self.crash is None:
            self.crash = error

    def take(self) -> list[Task]:
        """Wait for a task to end, or for something to be asked; returns the tasks that ended."""
        item = self._get()
        while True:
            if item is not None:
                item()
            if self.inbox.empty():
                break
            item = self.inbox.get()
        return self.ended()

    def ended(self) -> list[Task]:
        """Return the tasks that have ended since the last look."""
        found = []
        while self.finished:
            found.append(self.finished.popleft())
        return found

    def _get(self) -> Callable[[], Any] | None:
        """Wait until a task has ended or another thread asks something."""
        while not self.finished:
            now = time.monotonic()
            if self.waiting and self._hired < self.limit and self.are_blocked():
                most = min(len(self.waiting), self.limit - self._hired)
                self._hire(min(self._hired or 1, most))
            moments = [self._hire_at] if self._looks() else []
            if self.deadline is not None:
                moments.append(self.deadline)
            try:
                return self.inbox.get(timeout=max(0.0, min(moments) - now) if moments else None)
            except Empty:
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    raise TimeoutError("Timed out") from None
        return None

    def drop(self) -> int:
        """Forget the tasks that no thread has taken; returns their number."""
        dropped = 0
        while True:
            try:
                self.waiting.pop()
            except IndexError:
                return dropped
            dropped += 1

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a call on the driver's thread, for a task on another one."""
        answer: Future[Any] = Future()

        def make() -> None:
            try:
                answer.set_result(function(*args))
            except BaseException as error:
                answer.set_exception(error)

        with self._ending:
            if self._is_over:
                raise RuntimeError(
                    "The run has ended; code left running by a node can no longer store anything."
                )
            self.inbox.put(make)
        return answer.result()

    def close(self) -> None:
        """Wait for the tasks that are still running, and lets the threads go."""
        if self._pool is not None:
            self._let_go(self._pool)
        with self._ending:
            self._is_over = True
        while not self.inbox.empty():  # asked by what a node has left running, just before
            item = self.inbox.get()
            if item is not None:
                item()

    def _let_go(self, pool: ThreadPoolExecutor) -> None:
        self.drop()
        # A node that is still running may wait for a call to be made on this thread.
        while any(not future.done() for future in self._futures):
            try:
                item = self.inbox.get(timeout=0.05)
                if item is not None:
                    item()
            except Exception:
                continue
        pool.shutdown()
