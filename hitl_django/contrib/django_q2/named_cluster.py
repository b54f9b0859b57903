"""The cluster that runs are sent to: the one that ``HITL["CLUSTER"]`` names, or Q_CLUSTER's own.

django-q2 has named clusters, each with a queue of its own, of which a process is in the one that
the environment names; but only where ``Q_CLUSTER["ALT_CLUSTERS"]`` describes others.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django_q.conf import Conf

from hitl_django.conf import hitl
from hitl_django.task_queue import supervisor_pipe

#: The environment variable that django-q2 looks for a cluster's name in.
VARIABLE = "Q_CLUSTER_NAME"


def get_name() -> str | None:
    """Return the name of the cluster for runs; None where it is whichever this process is in."""
    return hitl.CLUSTER or None


def build_environment() -> Mapping[str, str]:
    """Return what the environment of the cluster's processes has to hold."""
    name = get_name()
    others = (getattr(settings, "Q_CLUSTER", None) or {}).get("ALT_CLUSTERS") or {}
    return {VARIABLE: name} if name is not None and name in others else {}


def join_cluster() -> None:
    """Put this process into the cluster for runs, if ``hitl worker`` has started it.

    What Q_CLUSTER says of that cluster, django-q2 has read by itself; where it says nothing,
    django-q2 would refuse the name.
    """
    name = get_name()
    if name is not None and supervisor_pipe.is_supervised():
        Conf.CLUSTER_NAME = name
