"""Interface to the task queue, which carries messages to workers.

A message consists of the dotted path of a function, and the id of a run or of an optional app's
row. A message may be lost, repeated or late, because the state of the work is stored in the rows:
the sweep, a periodic job, enqueues another message for each row that waits too long. Dotted paths
are used so that web processes don't import the worker.

A queue whose workers watch the table of runs needs no messages for queued runs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from django.core.checks import CheckMessage
from django.db import transaction
from django.utils.module_loading import import_string

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.extensions import list_extensions

from . import due_runs

ADVANCE = "hitl_django.worker.advance"
ADVANCE_DUE = "hitl_django.worker.advance_due"
SWEEP = "hitl_django.worker.sweep"
REPORT = "hitl_django.task_queue.heartbeat.report_idle"
#: The maximum nesting of calls in a dispatcher that calls functions immediately. Each call takes
#: about twenty stack frames.
DEEPEST = 10
#: The seconds after which a worker requeues a run.
TIME_SLICE = 60.0


class Dispatcher(ABC):
    """A task queue that carries messages to workers.

    ``HITL["DISPATCH"]`` names a subclass. A subclass must implement ``enqueue``. All other methods
    have defaults.
    """

    @abstractmethod
    def enqueue(self, function: str, argument: str) -> None:
        """Enqueue a call of the function with this dotted path and argument.

        The method is called at the end of a transaction, after all other writes. If the transaction
        is a single statement, the method is called directly after the transaction. A queue outside
        of the database must send the message after the commit, and an error of the queue must not
        revert the commit: ``transaction.on_commit(send, robust=True)``.
        """

    def watches_runs(self) -> bool:
        """Return whether workers of this queue find queued runs themselves, with ``RunWatch``.

        If True, no messages are enqueued for queued runs.
        """
        return False

    def time_slice(self) -> float | None:
        """Return the maximum seconds that a task may spend on one run, or None without a limit.

        The default is TIME_SLICE. If the queue stops tasks after a time limit, the result must be
        less than this limit.
        """
        return TIME_SLICE

    def stop_errors(self) -> Mapping[type[BaseException], str]:
        """Return the errors that this queue raises in a task to stop it, each with a reason.

        These errors aren't treated as errors of the running node. The error stored in the run
        consists of the reason and the node's name, for example "exceeded the timeout of 60 s in
        node 'search'".
        """
        return {}

    def check(self) -> Sequence[CheckMessage]:
        """Return system check messages about the queue's settings."""
        return ()

    def probe(self) -> Sequence[CheckMessage]:
        """Return check messages about the current state of the queue.

        A message is CRITICAL if the queue is down.
        """
        return ()

    def command(self) -> Sequence[str]:
        """Return the management command that starts workers, or () if the queue needs none."""
        return ()

    def worker_function(self) -> Callable[[], object] | None:
        """Return a function that runs workers, or None if there is none.

        If there is a function, ``hitl worker`` calls it instead of starting ``command``. The
        function may fork, and returns some time after SIGTERM. ``hitl worker`` calls the function
        in a forked process, which shares the memory of imported modules. If ``hitl worker`` can't
        fork, and to replace processes that have failed, it calls the function in a new program.
        """
        return None

    def reports_when_idle(self) -> bool:
        """Return whether idle workers store heartbeats without a message from the sweep.

        Return True if the workers of the queue run the sweep on a schedule. If the result is False,
        the sweep enqueues a message for a heartbeat once or twice a minute.
        """
        return False

    def environment(self) -> Mapping[str, str]:
        """Return environment variables to set for the program that starts workers.

        If there are any, ``hitl worker`` starts workers as a new program.
        """
        return {}


class InlineDispatcher(Dispatcher):
    """A dispatcher that calls functions in this process after the commit, for tests and scripts.

    If the process ends, pending calls are lost. A call may be nested in another call: the end of a
    run starts the next waiting run. Calls that are nested too deeply for Python's recursion limit
    are deferred.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        call = partial(import_string(function), argument)
        transaction.on_commit(partial(_nesting.perform, call), using=write_alias())


class _Nesting(threading.local):
    """The calls of messages on this OS thread: the nesting depth, and the deferred calls."""

    def __init__(self) -> None:
        self.depth = 0
        self.left: deque[Callable[[], object]] = deque()

    def perform(self, call: Callable[[], object]) -> None:
        """Make a call, or defer the call if calls are nested too deeply.

        Deferred calls are made when the outermost call has ended.
        """
        if self.depth >= DEEPEST:
            self.left.append(call)
            return
        self.depth += 1
        try:
            call()
            while self.depth == 1 and self.left:
                self.left.popleft()()
        finally:
            self.depth -= 1
            if not self.depth:
                self.left.clear()


_nesting = _Nesting()


def get_dispatcher() -> Dispatcher:
    """Return a new dispatcher of the class that ``HITL["DISPATCH"]`` names."""
    chosen: Dispatcher = _find_dispatcher(hitl.DISPATCH)()
    return chosen


@cache
def _find_dispatcher(path: str) -> type[Dispatcher]:
    found: type[Dispatcher] = import_string(path)
    return found


def enqueue(run_id: object, batch: WriteBatch) -> None:
    """Make a worker execute a run that the batch, or an earlier statement, sets to queued.

    If the workers of the queue watch the table of runs, the batch notifies these workers.
    Otherwise, a message with the run's id is added to the batch.
    """
    if get_dispatcher().watches_runs():
        batch.notify(due_runs.CHANNEL)
    else:
        enqueue_message(run_id, batch)


def enqueue_message(run_id: object, batch: WriteBatch) -> None:
    """Add a message to the batch, for a run in any state.

    The worker that receives the message executes the run if the run is due. If the run's thread has
    no active run, the worker executes the next waiting run of the thread.
    """
    _add_message(ADVANCE, run_id, batch)


def enqueue_task(function: str, argument: object, batch: WriteBatch) -> None:
    """Add to the batch a message on which a worker calls a task function of an optional app."""
    _add_message(function, argument, batch)


def list_functions() -> frozenset[str]:
    """Return the dotted paths of the functions that messages may name."""
    return frozenset({ADVANCE, ADVANCE_DUE, REPORT}).union(
        *(each.tasks for each in list_extensions())
    )


def enqueue_report(batch: WriteBatch) -> None:
    """Add to the batch a message on which an idle worker stores a heartbeat."""
    _add_message(REPORT, "", batch)


def get_time_slice() -> float | None:
    """Return the maximum seconds that a worker spends on one run, or None without a limit."""
    if hitl.TIME_SLICE_SECONDS is not None:
        return float(hitl.TIME_SLICE_SECONDS)
    return get_dispatcher().time_slice()


def get_stop_errors() -> Mapping[type[BaseException], str]:
    """Return the errors that the queue raises in a task to stop it, each with a reason."""
    return get_dispatcher().stop_errors()


def _add_message(function: str, subject: object, batch: WriteBatch) -> None:
    batch.after_write(partial(get_dispatcher().enqueue, function, str(subject)))
