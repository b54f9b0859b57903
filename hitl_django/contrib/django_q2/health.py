"""Health checks of the task queue: its broker, and the schedules of the sweep."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import Group
from django.core import checks
from django.db import router
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import Schedule

from . import broker_choice, named_cluster, schedules


def probe_queue() -> list[checks.CheckMessage]:
    """Report problems of the queue.

    Problems are:

    - an unreachable broker
    - missing schedules of the sweep
    - groups of reviewers with the permission to edit schedules
    - a ``bulk`` of 1 in Q_CLUSTER, which slows down the tasks of runs
    """
    return [*_broker(), *_schedules(), *_privileges(), *_throughput()]


def _broker() -> Iterator[checks.CheckMessage]:
    try:
        broker = get_broker(named_cluster.get_name())
        broker.ping()
        broker.queue_size()
    except Exception as error:  # any exception of the broker's library
        yield checks.Critical(
            f"The queue's broker is unreachable: {type(error).__name__}: {error}",
            hint="Start the broker, or fix Q_CLUSTER. No runs are lost; the sweep "
            "resends their messages.",
            id="hitl_django.E030",
        )


def _schedules() -> Iterator[checks.CheckMessage]:
    using = router.db_for_write(Schedule)
    active = Schedule.objects.using(using).filter(name__startswith=schedules.NAME)
    missing = schedules.count_schedules() - active.exclude(repeats=0).count()
    if missing > 0 and Conf.SCHEDULER:
        yield checks.Error(
            "The sweep isn't scheduled, so plain qcluster doesn't recover runs whose "
            "message was lost.",
            hint="Run 'manage.py migrate', which schedules it.",
            id="hitl_django.E031",
        )


def _privileges() -> Iterator[checks.CheckMessage]:
    groups = Group.objects.filter(
        permissions__content_type__app_label="django_q",
        permissions__codename__in=("add_schedule", "change_schedule"),
    )
    both = groups.filter(
        pk__in=Group.objects.filter(permissions__content_type__app_label="hitl_django")
    )
    names = sorted(set(both.values_list("name", flat=True)))
    if names:
        yield checks.Warning(
            f"Groups that can review can also edit django-q2 schedules: {', '.join(names)}.",
            hint="A schedule can call any function, so editing one allows running "
            "arbitrary code. Grant that permission only to people who may deploy.",
            id="hitl_django.W033",
        )


def _throughput() -> Iterator[checks.CheckMessage]:
    # Runs need no tasks if the broker watches the runs.
    if Conf.BULK == 1 and not broker_choice.shares_transaction():
        yield checks.Info(
            "Each task costs more than it has to: Q_CLUSTER['bulk'] is 1.",
            hint="For many runs a second: 'bulk': 10, 'queue_limit': 50 and 'recycle': 5000 in "
            "Q_CLUSTER.",
            id="hitl_django.I032",
        )
