"""The seam to the task queue: messages by which a worker learns that something is due.

A message names a function and carries the id of a run or of a row of an app, and nothing else.
It may be lost, repeated or late: the rows are the truth, and the sweep enqueues another message for
every row that waits too long. The functions go by their dotted paths, so that nothing on the
reviewer's side imports the worker.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from django.core.checks import CheckMessage
from django.db import models, transaction
from django.utils.module_loading import import_string

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.write_batch import WriteBatch
from hitl_django.extensions import list_extensions

ADVANCE = "hitl_django.worker.advance"
SWEEP = "hitl_django.worker.sweep"
REPORT = "hitl_django.task_queue.heartbeat.report_idle"
#: Calls within one another of a dispatcher that calls at once; each is some twenty frames.
DEEPEST = 10


class Dispatcher(ABC):
    """A task queue: what carries messages to workers.

    ``HITL["DISPATCH"]`` names a subclass. Only ``enqueue`` has to be written; whatever else a queue
    can do has a default that does nothing.
    """

    @abstractmethod
    def enqueue(self, function: str, argument: str) -> None:
        """Has a worker call the function of this dotted path with the argument.

        It is called when all else of the transaction is written: as its last write, or right behind
        it where no transaction stays open for that. A queue that is elsewhere has to wait for the
        commit, and must not undo it if it fails: ``transaction.on_commit(send, robust=True)``.
        """

    def message_row(self, function: str, argument: str) -> models.Model | None:
        """Return the message as an unsaved row of a table in the runs' database, if it is one.

        It is inserted with the other rows of the transaction, by the same statement, and
        ``enqueue`` is not called. Columns with a default in the database are left to it.
        """
        return None

    def time_slice(self) -> float | None:
        """Return the seconds a worker may stay with one run; None where nothing limits it."""
        return None

    def stop_errors(self) -> Mapping[type[BaseException], str]:
        """Return the errors that this queue raises in a task to stop it, with their reasons.

        They aren't failures of the node in which they are raised. A reason is the beginning of a
        sentence that goes on with the node's name, such as "exceeded the timeout of 60 s".
        """
        return {}

    def install(self, using: str) -> None:  # noqa: B027  # a queue without schedules needs nothing
        """Arrange for SWEEP to be called regularly; ``using`` was just migrated."""

    def check(self) -> Sequence[CheckMessage]:
        """Report settings of the queue that are known to hurt."""
        return ()

    def probe(self) -> Sequence[CheckMessage]:
        """Report what of the queue is missing at this moment; CRITICAL if nobody can reach it."""
        return ()

    def command(self) -> Sequence[str]:
        """Return the management command that starts workers; empty where none is needed."""
        return ()

    def reports_when_idle(self) -> bool:
        """Return whether idle workers report, because they carry out the scheduled sweep.

        Where they don't, the sweep sends them a message once or twice a minute.
        """
        return False

    def environment(self) -> Mapping[str, str]:
        """Return what the environment of that command has to hold."""
        return {}


class InlineDispatcher(Dispatcher):
    """Calls the function in this process, right after the commit: for tests and scripts.

    Nothing recovers what this process drops, so it is no queue. Calls within calls are made in
    their turn from a certain depth on, as each run that waits for another is begun by its end.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        call = partial(import_string(function), argument)
        transaction.on_commit(partial(_nesting.perform, call), using=write_alias())


class _Nesting(threading.local):
    """Calls of this thread that are made within one another."""

    def __init__(self) -> None:
        self.depth = 0
        self.left: deque[Callable[[], object]] = deque()

    def perform(self, call: Callable[[], object]) -> None:
        """Make a call, or leave it to the outermost where it would be too deep."""
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
    """Return the dispatcher that ``HITL["DISPATCH"]`` names."""
    chosen: Dispatcher = _find_dispatcher(hitl.DISPATCH)()
    return chosen


@cache
def _find_dispatcher(path: str) -> type[Dispatcher]:
    found: type[Dispatcher] = import_string(path)
    return found


def enqueue(run_id: object, batch: WriteBatch) -> None:
    """Add a message that a run is due to what is written."""
    _add_message(ADVANCE, run_id, batch)


def enqueue_task(function: str, argument: object, batch: WriteBatch) -> None:
    """Add a message to the batch that has a worker call a task of an optional app."""
    _add_message(function, argument, batch)


def list_functions() -> frozenset[str]:
    """Return the functions that messages with an argument may name."""
    return frozenset({ADVANCE, REPORT}).union(*(each.tasks for each in list_extensions()))


def enqueue_report(batch: WriteBatch) -> None:
    """Add a message to what is written that has an idle worker report."""
    _add_message(REPORT, "", batch)


def get_time_slice() -> float | None:
    """Return the seconds a worker may stay with one run; None where nothing limits it."""
    if hitl.TIME_SLICE_SECONDS is not None:
        return float(hitl.TIME_SLICE_SECONDS)
    return get_dispatcher().time_slice()


def get_stop_errors() -> Mapping[type[BaseException], str]:
    """Return the errors that the queue raises in a task to stop it, with their reasons."""
    return get_dispatcher().stop_errors()


def _add_message(function: str, subject: object, batch: WriteBatch) -> None:
    queue, argument = get_dispatcher(), str(subject)
    row = queue.message_row(function, argument)
    if row is None:
        batch.after_write(partial(queue.enqueue, function, argument))
        return
    insert = _message_insert(type(row))
    batch.insert(insert, [insert.values_of(row)])


@cache
def _message_insert(model: type[models.Model]) -> BulkInsert:
    return BulkInsert(model, insertable_columns(model), fresh=True)
