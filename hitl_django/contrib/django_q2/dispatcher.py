"""Hints as django-q2 tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.core.checks import CheckMessage
from django.db import transaction
from django_q.conf import Conf
from django_q.tasks import async_task

from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.task_queue import dispatcher

from . import checks, health, schedules
from .task_rows import Queue

#: A run is left at a super-step's edge after this part of the task's timeout, so that django-q2
#: hardly ever has to kill a worker in the middle of a node.
SLICE = 0.6


class Dispatcher:
    """Sends ``(function, id)``: no payload, no class, nothing worth reading a result of.

    With the ORM broker on our own database the queue's row is written in the caller's transaction,
    so that it commits or vanishes with the run. Any other broker is told after the commit, and
    what is lost in between is the sweep's to find.
    """

    def hint(self, run_id: str, batch: WriteBatch) -> None:
        _send(dispatcher.ADVANCE, run_id, batch)

    def hint_webhook(self, endpoint_id: str) -> None:
        batch = WriteBatch(write_alias())
        _send(dispatcher.DELIVER, endpoint_id, batch)
        batch.run()

    def time_slice(self) -> float | None:
        return Conf.TIMEOUT * SLICE if Conf.TIMEOUT else None

    def install(self, using: str) -> None:
        schedules.install(using)

    def check(self) -> Sequence[CheckMessage]:
        return checks.check_cluster()

    def probe(self) -> Sequence[CheckMessage]:
        return health.probe()

    def command(self) -> Sequence[str]:
        return ["qcluster"]


def _send(function: str, subject: str, batch: WriteBatch) -> None:
    # A function and not a partial: Django names what failed by its __qualname__.
    def send() -> None:
        # save=False: the outcome is in the rows. ack_failure=True: a message is never redelivered
        # for its failure, because what is still due gets a new one from the sweep.
        async_task(function, subject, ack_failure=True, save=False, broker=queue)

    queue = None
    if shares_transaction():
        queue = Queue(batch)
        send()
    else:
        batch.after_write(partial(transaction.on_commit, send, using=write_alias(), robust=True))


def shares_transaction() -> bool:
    """Says whether the broker's rows are in the database that runs are written to."""
    other = Conf.BROKER_CLASS or Conf.IRON_MQ or Conf.SQS
    return not other and write_alias() == Conf.ORM
