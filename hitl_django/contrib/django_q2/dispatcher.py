"""Messages as django-q2 tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.db import transaction
from django.utils import timezone
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ
from django_q.tasks import async_task

from hitl_django.db.alias import write_alias
from hitl_django.task_queue.dispatcher import Dispatcher

from . import checks, health, named_cluster, schedules
from .packing_broker import PackingBroker

#: A run is left at a super-step's edge after this part of the task's timeout, so that django-q2
#: hardly ever has to kill a worker in the middle of a node.
SLICE = 0.6


class DjangoQ2Dispatcher(Dispatcher):
    """Sends ``(function, id)``: no payload, no class, nothing worth reading a result of.

    With the ORM broker on the runs' own database the queue's row is written in the caller's
    transaction, so that it commits or vanishes with the run. Any other broker gets the task after
    the commit, and what is lost in between is the sweep's to find.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        # A function and not a partial: Django names what failed by its __qualname__.
        def send() -> None:
            _send(function, argument)

        if shares_transaction():
            send()
        else:
            transaction.on_commit(send, using=write_alias(), robust=True)

    def message_row(self, function: str, argument: str) -> OrmQ | None:
        # With ``sync`` there is no message: django-q2 calls the function instead of packing it.
        if Conf.SYNC or not shares_transaction():
            return None
        broker = PackingBroker()
        _send(function, argument, broker=broker)
        return OrmQ(key=broker.list_key, payload=broker.payload, lock=timezone.now())

    def time_slice(self) -> float | None:
        return Conf.TIMEOUT * SLICE if Conf.TIMEOUT else None

    def stop_errors(self) -> Mapping[type[BaseException], str]:
        return {TimeoutException: f"exceeded Q_CLUSTER['timeout'] ({Conf.TIMEOUT} s)"}

    def install(self, using: str) -> None:
        schedules.install_schedules(using)

    def check(self) -> Sequence[CheckMessage]:
        return checks.check_cluster()

    def probe(self) -> Sequence[CheckMessage]:
        return health.probe_queue()

    def command(self) -> Sequence[str]:
        return ["qcluster"]

    def environment(self) -> Mapping[str, str]:
        return named_cluster.build_environment()


def _send(function: str, argument: str, **options: Any) -> None:
    # save=False: the outcome is in the rows. ack_failure=True: a message is never redelivered for
    # its failure, because what is still due gets a new one from the sweep.
    cluster = named_cluster.get_name()
    async_task(function, argument, cluster=cluster, ack_failure=True, save=False, **options)


def shares_transaction() -> bool:
    """Return whether the broker's rows are in the database that runs are written to."""
    other = Conf.BROKER_CLASS or Conf.IRON_MQ or Conf.SQS
    return not other and write_alias() == Conf.ORM
