"""Dispatcher that sends messages as django-q2 tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from django.core.checks import CheckMessage
from django.db import transaction
from django_q.brokers import Broker, get_broker
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.tasks import async_task

from hitl_django.db.alias import write_alias
from hitl_django.task_queue.dispatcher import Dispatcher

from . import broker_choice, checks, health, named_cluster
from .cluster import run_cluster

#: Share of the task's timeout after which a run is requeued between super-steps, so that django-q2
#: rarely kills a worker within a node.
SLICE = 0.6


class DjangoQ2Dispatcher(Dispatcher):
    """Dispatcher that sends each message as a django-q2 task whose result isn't stored.

    A message consists of a function's dotted path and the function's argument.

    If the ORM broker uses the runs' database, the cluster watches the runs (``RunBroker``), and
    queued runs need no task. Tasks for all other messages are inserted in the caller's transaction.
    With another broker or database, tasks are sent after the commit. If the process crashes after
    the commit and before the broker has the task, the sweep sends the message again.
    """

    def reports_when_idle(self) -> bool:
        return True

    def enqueue(self, function: str, argument: str) -> None:
        # Use a function instead of a partial, because Django reports failures by __qualname__.
        def call() -> None:
            send(function, argument)

        if broker_choice.shares_transaction():
            call()
        else:
            transaction.on_commit(call, using=write_alias(), robust=True)

    def watches_runs(self) -> bool:
        # With ``sync``, django-q2 calls the function directly, and no process watches.
        return broker_choice.shares_transaction() and not Conf.SYNC

    def time_slice(self) -> float | None:
        return Conf.TIMEOUT * SLICE if Conf.TIMEOUT else None

    def stop_errors(self) -> Mapping[type[BaseException], str]:
        return {TimeoutException: f"exceeded Q_CLUSTER['timeout'] ({Conf.TIMEOUT} s)"}

    def check(self) -> Sequence[CheckMessage]:
        return checks.check_cluster()

    def probe(self) -> Sequence[CheckMessage]:
        return health.probe_queue()

    def command(self) -> Sequence[str]:
        return ["qcluster", "--skip-checks"]  # The supervisor has run the checks.

    def worker_function(self) -> Callable[[], object]:
        return run_cluster

    def environment(self) -> Mapping[str, str]:
        # With this variable, django-q2 reads other settings when it is imported.
        return named_cluster.build_environment()


def send(function: str, argument: str, **options: Any) -> None:
    """Send a message as a task. ``options`` are arguments of ``async_task``."""
    # With save=False, django-q2 stores no result, because the outcome is in the run's row. With
    # ack_failure=True, a failed task isn't repeated, because the sweep sends a new message for a
    # run that is still due.
    cluster = named_cluster.get_name()
    if "broker" not in options and broker_choice.uses_redis():
        options["broker"] = _keep_redis_broker(cluster, str(Conf.REDIS))
    async_task(function, argument, cluster=cluster, ack_failure=True, save=False, **options)


@cache
def _keep_redis_broker(cluster: str | None, address: str) -> Broker:
    """Return the broker with which this process sends all messages to Redis.

    The broker is cached, because ``async_task`` would otherwise open a connection for each message.
    ``cluster`` is the name of the cluster, and ``address`` is the address of Redis. Several OS
    threads and forked processes may use the same broker, because its Redis client allows this. The
    client also replaces connections that the server has closed.
    """
    return get_broker(cluster)
