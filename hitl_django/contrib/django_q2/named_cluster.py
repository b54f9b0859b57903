"""The django-q2 cluster that executes runs. ``HITL["CLUSTER"]`` or Q_CLUSTER contains its name.

Each named cluster of django-q2 has a separate queue. An environment variable selects the cluster of
a process, but only if ``Q_CLUSTER["ALT_CLUSTERS"]`` contains other clusters.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django_q.conf import Conf

from hitl_django.conf import hitl
from hitl_django.task_queue import supervisor_pipe

#: Environment variable that contains the cluster's name for django-q2.
VARIABLE = "Q_CLUSTER_NAME"


def get_name() -> str | None:
    """Return ``HITL["CLUSTER"]``, or None if it is not set.

    django-q2 uses None for the cluster of the current process.
    """
    return hitl.CLUSTER or None


def get_cluster_of_runs() -> str:
    """Return the name of the cluster that executes runs, from ``HITL["CLUSTER"]`` or Q_CLUSTER."""
    own = getattr(settings, "Q_CLUSTER", None) or {}
    return str(hitl.CLUSTER or own.get("cluster_name") or own.get("name") or "default")


def build_environment() -> Mapping[str, str]:
    """Return the environment variables that make a process join the cluster for runs."""
    name = get_name()
    others = (getattr(settings, "Q_CLUSTER", None) or {}).get("ALT_CLUSTERS") or {}
    return {VARIABLE: name} if name is not None and name in others else {}


def join_cluster() -> None:
    """Make this process join the cluster for runs, if ``hitl worker`` started this process.

    This function changes django-q2's configuration object, because django-q2 has already read
    Q_CLUSTER. The name need not be defined in Q_CLUSTER.
    """
    name = get_name()
    if name is not None and supervisor_pipe.is_supervised():
        Conf.CLUSTER_NAME = name
