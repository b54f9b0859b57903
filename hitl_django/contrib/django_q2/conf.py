"""Settings of the dispatcher for django-q2."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.conf.kinds import setting


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Setting for the django-q2 cluster that executes runs."""

    CLUSTER: str = setting(
        "",
        "Name of a separate django-q2 cluster for runs, so that runs and your own tasks don't "
        "delay each other. '': runs use the cluster in Q_CLUSTER.",
    )
