"""How a worker is told that a run is due.

A hint carries a run's id and nothing else. It may be lost, repeated or late: the QUEUED row is the
truth, and the sweep gives another hint for every row that waits too long. The worker is reached by
its dotted path, so that nothing on the reviewer's side imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from django.core.checks import CheckMessage
from django.db import transaction
from django.utils.module_loading import import_string

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch

ADVANCE = "hitl_django.worker.advance"
DELIVER = "hitl_django.notifications.webhooks.deliver"
SWEEP = "hitl_django.worker.sweep"


class Dispatcher(Protocol):
    """The seam to a queue."""

    def hint(self, run_id: str, batch: WriteBatch) -> None:
        """Has a worker call ADVANCE with the run's id, if what is written commits."""

    def hint_webhook(self, endpoint_id: str) -> None:
        """Has a worker call DELIVER with the endpoint's id, if the current transaction commits."""

    def time_slice(self) -> float | None:
        """Returns the seconds a worker may stay with one run; None where nothing limits it."""

    def install(self, using: str) -> None:
        """Arranges for SWEEP to be called regularly; ``using`` was just migrated."""

    def check(self) -> Sequence[CheckMessage]:
        """Reports settings of the queue that are known to hurt."""

    def probe(self) -> Sequence[CheckMessage]:
        """Reports what of the queue is missing at this moment; CRITICAL if nobody can reach it."""

    def command(self) -> Sequence[str]:
        """Returns the management command that works hints off; empty where none is needed."""


class InlineDispatcher:
    """Advances the run in this process, right after the commit: for tests and scripts.

    Nothing recovers what this process drops, so it is no queue.
    """

    def hint(self, run_id: str, batch: WriteBatch) -> None:
        advance = partial(import_string(ADVANCE), run_id)
        batch.after_write(partial(transaction.on_commit, advance, using=write_alias()))

    def hint_webhook(self, endpoint_id: str) -> None:
        deliver = import_string(DELIVER)
        transaction.on_commit(partial(deliver, endpoint_id), using=write_alias())

    def time_slice(self) -> float | None:
        return None

    def install(self, using: str) -> None:
        pass

    def check(self) -> Sequence[CheckMessage]:
        return ()

    def probe(self) -> Sequence[CheckMessage]:
        return ()

    def command(self) -> Sequence[str]:
        return ()


def dispatcher() -> Dispatcher:
    """Returns the dispatcher that ``HITL["DISPATCH"]`` names."""
    chosen: Dispatcher = import_string(hitl.DISPATCH)()
    return chosen


def enqueue(run_id: object, batch: WriteBatch | None = None) -> None:
    """Tells a worker about a queued run, if the current transaction commits.

    With ``batch`` it is one of the things that are written there.
    """
    part = batch or WriteBatch(write_alias())
    dispatcher().hint(str(run_id), part)
    if batch is None:
        part.run()


def enqueue_webhook(endpoint_id: object) -> None:
    """Tells a worker that something is due to an endpoint, if the current transaction commits."""
    dispatcher().hint_webhook(str(endpoint_id))


def time_slice() -> float | None:
    """Returns the seconds a worker may stay with one run; None where nothing limits it."""
    if hitl.TIME_SLICE_SECONDS is not None:
        return float(hitl.TIME_SLICE_SECONDS)
    return dispatcher().time_slice()
