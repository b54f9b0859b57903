"""System checks of django-q2's setting Q_CLUSTER."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from django.apps import apps
from django.conf import settings
from django.core import checks
from django_q.conf import Conf

from hitl_django.db.alias import write_alias

from . import broker_choice, named_cluster


def check_cluster() -> list[checks.CheckMessage]:
    """Report values in Q_CLUSTER that lose, duplicate or delay tasks."""
    if not apps.is_installed("django_q"):
        return [
            checks.Error(
                "HITL['DISPATCH'] uses django-q2, but 'django_q' is not in "
                "INSTALLED_APPS: its tables are missing and no worker can start.",
                hint="Add 'django_q' to INSTALLED_APPS and run 'manage.py migrate', or "
                "use another queue.",
                id="hitl_django.E018",
            )
        ]
    return list(_faults())


def _faults() -> Iterator[checks.CheckMessage]:
    yield from _broker()
    yield from _times()
    if named_cluster.get_name() == Conf.PREFIX:
        yield checks.Warning(
            f"HITL['CLUSTER'] is {Conf.PREFIX!r}, the name of the cluster in Q_CLUSTER, "
            "so runs and your own tasks share its workers.",
            hint="Choose another name; 'manage.py hitl worker' starts that cluster.",
            id="hitl_django.W040",
        )
    if Conf.SYNC and not settings.DEBUG:
        yield checks.Warning(
            "Q_CLUSTER['sync'] runs tasks inside the transaction of the process that queues them.",
            hint="Remove 'sync', or use hitl_django.task_queue.dispatcher.InlineDispatcher "
            "in tests.",
            id="hitl_django.W013",
        )
    if int(Conf.WORKERS) < 2:
        yield checks.Warning(
            "Q_CLUSTER['workers'] is 1: a slow node blocks all other runs, and if the "
            "worker is killed there is no other.",
            hint="Set Q_CLUSTER['workers'] to at least 2.",
            id="hitl_django.W016",
        )
    if not Conf.SCHEDULER:
        yield checks.Warning(
            "Q_CLUSTER['scheduler'] is off, so plain qcluster doesn't recover runs after "
            "a crash or a lost message.",
            hint="Turn the scheduler on in one cluster, or run 'manage.py hitl worker', "
            "which runs the sweep itself.",
            id="hitl_django.W015",
        )


def _broker() -> Iterator[checks.CheckMessage]:
    if not getattr(settings, "Q_CLUSTER", None):
        yield checks.Warning(
            "Q_CLUSTER isn't set, so messages go to a Redis server on localhost.",
            hint="Set Q_CLUSTER['orm'] to the alias of the database that stores runs.",
            id="hitl_django.W010",
        )
    elif broker_choice.uses_redis() and importlib.util.find_spec("redis") is None:
        yield checks.Error(
            "Q_CLUSTER uses Redis, but the redis package isn't installed.",
            hint="Run pip install 'hitl-django[redis]', or set Q_CLUSTER['orm'].",
            id="hitl_django.E017",
        )
    if Conf.ORM and write_alias() != Conf.ORM:
        yield checks.Warning(
            "Q_CLUSTER['orm'] is not the database that stores runs, so a message and its "
            "run can't be committed together.",
            hint=f"Set Q_CLUSTER['orm'] to {write_alias()!r}. Until then the sweep "
            "resends lost messages.",
            id="hitl_django.W014",
        )


def _times() -> Iterator[checks.CheckMessage]:
    if not Conf.TIMEOUT:
        yield checks.Warning(
            "Q_CLUSTER has no timeout: a hanging node blocks its worker forever.",
            hint="Set Q_CLUSTER['timeout'] to the maximum seconds a worker may spend on one run.",
            id="hitl_django.W011",
        )
    elif Conf.RETRY <= Conf.TIMEOUT:
        yield checks.Warning(
            "Q_CLUSTER['retry'] must be greater than its timeout, or tasks are delivered "
            "again while they run.",
            hint="Set Q_CLUSTER['retry'] to more than Q_CLUSTER['timeout'].",
            id="hitl_django.W012",
        )
