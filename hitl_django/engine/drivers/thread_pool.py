"""OS threads for the parallel tasks of a super-step. Their number grows while tasks are queued."""

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

#: The default of concurrent.futures.
MAX_THREADS = min(32, (os.cpu_count() or 1) + 4)
#: Seconds for which an OS thread may be busy before another OS thread takes queued tasks.
MAX_BUSY_SECONDS = 0.001

Perform = Callable[[TaskContext], Task]


class TaskThreads:
    """The OS threads of one run, its queued tasks, and the messages from the OS threads.

    All methods except ``spawn``, ``ask`` and ``crashed`` are called by one OS thread at a time.
    This is the driver's OS thread or, while a task blocks the driver's OS thread, the deputy.
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
        #: Called by an OS thread that has no more tasks.
        self._leave = leave
        #: Tasks that no OS thread has taken. Each runs with a copy of ``variables``.
        self.waiting: deque[TaskContext] = deque()
        self.variables: contextvars.Context | None = None
        #: Ended tasks, and the calls requested by other OS threads. None in the inbox only wakes
        #: the driver.
        self.finished: deque[Task] = deque()
        self.inbox: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        #: An error that ended a task and isn't a failure of the task's node.
        self.crash: BaseException | None = None
        #: The deadline of the running tasks on the monotonic clock.
        self.deadline: float | None = None
        #: Locked to appoint a deputy of the driver, and to check whether a deputy exists.
        self.appointing = threading.Lock()
        #: Locked to request a call and to close the pool, so that each request gets a result or an
        #: error.
        self._ending, self._is_over = threading.Lock(), False
        self._pool: ThreadPoolExecutor | None = None
        self._futures: list[Future[None]] = []
        #: The time to start more OS threads on the monotonic clock, and the number of started OS
        #: threads.
        self._start_more_at = 0.0
        self._started = 0
        #: The CPU clocks of the busy OS threads. At the last check: the CPU time used, and the
        #: number of queued tasks.
        self._clocks: list[int] = []
        self._used, self._left = 0.0, 0

    def take_on(self, contexts: Sequence[TaskContext]) -> None:
        self.variables = contextvars.copy_context()
        self.waiting.extend(contexts)
        self._started, self._clocks = 0, []
        self._futures = [future for future in self._futures if not future.done()]

    def begin(self) -> None:
        """Start the first OS thread for queued tasks."""
        self._start_threads(1)

    def join(self) -> None:
        """Register the calling OS thread as the first busy OS thread of the pool.

        Call this method before the calling OS thread runs queued tasks.
        """
        self._clocks = []
        self._note_clock()
        self._restart_waiting_time()

    def are_blocked(self) -> bool:
        """Return whether the busy OS threads have made no progress for MAX_BUSY_SECONDS seconds."""
        if time.monotonic() < self._start_more_at:
            return False
        if self._are_busy():
            self._restart_waiting_time()
            return False
        return True

    def spawn(self, work: Callable[[], None]) -> Future[None]:
        """Run ``work`` on an OS thread of the pool."""
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

    def _start_threads(self, count: int) -> None:
        """Start at most ``count`` additional OS threads for queued tasks.

        CPU-bound tasks run fastest one after the other, because they share the interpreter lock.
        Tasks that wait for I/O should all wait at the same time. The pool can't know the kind of
        queued tasks in advance. It starts one OS thread and then, while tasks are queued, doubles
        the number of OS threads every millisecond. The number isn't doubled while ``_are_busy``
        returns True, because the tasks are then CPU-bound.
        """
        self._started += count
        for _ in range(count):
            self.spawn(self._work_off)
        self._restart_waiting_time()

    def _restart_waiting_time(self) -> None:
        self._start_more_at = time.monotonic() + MAX_BUSY_SECONDS
        self._used, self._left = self._get_cpu_seconds(), len(self.waiting)

    def _are_busy(self) -> bool:
        """Return whether the pool's OS threads took tasks and used the CPU since the last check.

        If no task was taken, a single task may be computing for a long time. If the CPU was not
        used, a task may be waiting for another task. In both cases, the pool must start more OS
        threads for queued tasks.
        """
        since = time.monotonic() - self._start_more_at + MAX_BUSY_SECONDS
        return len(self.waiting) < self._left and self._get_cpu_seconds() - self._used > since / 2

    def _get_cpu_seconds(self) -> float:
        return sum(map(time.clock_gettime, tuple(self._clocks)))

    def _note_clock(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):  # The function is not available on every system.
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
            if task.error is not None or self._reports_each or not self._is_polling():
                self.inbox.put(None)

    def _is_polling(self) -> bool:
        """Return whether the driver checks for ended tasks at intervals.

        The driver does this while OS threads are being started. Waking the driver for each ended
        task would slow down many short tasks. An ended task is processed up to a millisecond later.
        """
        return bool(self.waiting) and self._started < self.limit

    def crashed(self, error: BaseException) -> None:
        """Register an error that ends the process, such as SystemExit.

        The error is raised again on the driver's OS thread, and is never stored as a failure of the
        node. The loop first processes the ended tasks, so that they are stored and don't run again.
        """
        if self.crash is None:
            self.crash = error

    def take(self) -> list[Task]:
        """Wait until a task ends or another OS thread passes a function to ``ask``.

        Call the functions passed to ``ask``, and return the ended tasks.
        """
        item = self._get()
        while True:
            if item is not None:
                item()
            if self.inbox.empty():
                break
            item = self.inbox.get()
        return self.ended()

    def ended(self) -> list[Task]:
        """Return the tasks that have ended since the last check."""
        found = []
        while self.finished:
            found.append(self.finished.popleft())
        return found

    def _get(self) -> Callable[[], Any] | None:
        """Wait until a task ends or another OS thread passes a function to ``ask``.

        Return the function, or None if no function was passed.
        """
        while not self.finished:
            now = time.monotonic()
            if self.waiting and self._started < self.limit and self.are_blocked():
                most = min(len(self.waiting), self.limit - self._started)
                self._start_threads(min(self._started or 1, most))
            moments = [self._start_more_at] if self._is_polling() else []
            if self.deadline is not None:
                moments.append(self.deadline)
            try:
                return self.inbox.get(timeout=max(0.0, min(moments) - now) if moments else None)
            except Empty:
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    raise TimeoutError("Timed out") from None
        return None

    def drop(self) -> int:
        dropped = 0
        while True:
            try:
                self.waiting.pop()
            except IndexError:
                return dropped
            dropped += 1

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function`` on the driver's OS thread, and wait for its result."""
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
        """Wait for the running tasks and release the OS threads."""
        if self._pool is not None:
            self._shut_down(self._pool)
        with self._ending:
            self._is_over = True
        while not self.inbox.empty():  # These are requests of code that a node left running.
            item = self.inbox.get()
            if item is not None:
                item()

    def _shut_down(self, pool: ThreadPoolExecutor) -> None:
        self.drop()
        # A running node may wait for a call on this OS thread.
        while any(not future.done() for future in self._futures):
            try:
                item = self.inbox.get(timeout=0.05)
                if item is not None:
                    item()
            except Exception:
                continue
        pool.shutdown()
