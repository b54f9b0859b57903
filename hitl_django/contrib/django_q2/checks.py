"""System checks of Q_CLUSTER, django-q2's setting."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from django.apps import apps
from django.conf import settings
from django.core import checks
from django_q.conf import Conf

from hitl_django.db.alias import write_alias

from . import named_cluster


def check_cluster() -> list[checks.CheckMessage]:
    """Reports values in Q_CLUSTER that are known to lose, double or stall work."""
    if not apps.is_installed("django_q"):
        return [
            checks.Error(
                "HITL['DISPATCH'] names django-q2, and 'django_q' is not in INSTALLED_APPS: it "
                "has no tables, and no worker can be started.",
                hint="Add 'django_q' to INSTALLED_APPS and run 'manage.py migrate', or name "
                "another queue.",
                id="hitl_django.E018",
            )
        ]
    return list(_faults())


def _faults() -> Iterator[checks.CheckMessage]:
    yield from _broker()
    yield from _times()
    if named_cluster.get_name() == Conf.PREFIX:
        yield checks.Warning(
            f"HITL['CLUSTER'] is {Conf.PREFIX!r}, the cluster of Q_CLUSTER itself, so runs wait "
            "behind the product's own tasks.",
            hint="Name another one, which 'manage.py hitl worker' then starts.",
            id="hitl_django.W040",
        )
    if Conf.SYNC and not settings.DEBUG:
        yield checks.Warning(
            "Q_CLUSTER['sync'] runs every task in the process that queues it, inside its "
            "transaction.",
            hint="Remove 'sync', or use hitl_django.task_queue.dispatcher.InlineDispatcher "
            "in tests.",
            id="hitl_django.W013",
        )
    if int(Conf.WORKERS) < 2:
        yield checks.Warning(
            "Q_CLUSTER['workers'] is 1: one node that takes its time holds up all other runs, and "
            "a worker that is killed while it waits leaves nobody.",
            hint="Set Q_CLUSTER['workers'] to 2 at least.",
            id="hitl_django.W016",
        )
    if not Conf.SCHEDULER:
        yield checks.Warning(
            "Q_CLUSTER['scheduler'] is off, so plain qcluster finds no run whose worker died or "
            "whose hint was lost.",
            hint="Leave the scheduler on in one cluster, or run 'manage.py hitl worker', which "
            "sweeps by itself.",
            id="hitl_django.W015",
        )


def _broker() -> Iterator[checks.CheckMessage]:
    if not getattr(settings, "Q_CLUSTER", None):
        yield checks.Warning(
            "Q_CLUSTER isn't set, so hints go to a Redis server on this machine.",
            hint="Set Q_CLUSTER['orm'] to the alias of the database that runs are written to.",
            id="hitl_django.W010",
        )
    elif uses_redis() and importlib.util.find_spec("redis") is None:
        yield checks.Error(
            "Q_CLUSTER names no broker but Redis, and the package redis isn't installed.",
            hint="pip install 'hitl-django[redis]', or set Q_CLUSTER['orm'].",
            id="hitl_django.E017",
        )
    if Conf.ORM and write_alias() != Conf.ORM:
        yield checks.Warning(
            "Q_CLUSTER['orm'] is another database than the one that runs are written to, so a "
            "hint can't be part of the transaction it belongs to.",
            hint=f"Set Q_CLUSTER['orm'] to {write_alias()!r}; until then lost hints wait for "
            "the sweep.",
            id="hitl_django.W014",
        )


def _times() -> Iterator[checks.CheckMessage]:
    if not Conf.TIMEOUT:
        yield checks.Warning(
            "Q_CLUSTER has no timeout: a node that hangs holds its worker for ever.",
            hint="Set Q_CLUSTER['timeout'] to the seconds a worker may stay with one run.",
            id="hitl_django.W011",
        )
    elif Conf.RETRY <= Conf.TIMEOUT:
        yield checks.Warning(
            "Q_CLUSTER['retry'] isn't greater than its timeout: tasks are delivered again while "
            "they run.",
            hint="Set Q_CLUSTER['retry'] to more than Q_CLUSTER['timeout'].",
            id="hitl_django.W012",
        )


def uses_redis() -> bool:
    """Says whether django-q2 falls back to Redis, as it does where no other broker is named."""
    others = (Conf.BROKER_CLASS, Conf.IRON_MQ, Conf.SQS, Conf.ORM, Conf.MONGO)
    return not any(others)
