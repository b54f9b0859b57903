"""django-q2 as the task queue.

The queue contains only messages. The state of runs is in the database.
"""

from __future__ import annotations

from django.apps import apps
from django.db.models.signals import post_migrate

from hitl_django.extensions import Extension, register

from . import broker_choice, named_cluster, schedules, worker_process
from .conf import ClusterSettings
from .dispatcher import DjangoQ2Dispatcher as Dispatcher

__all__ = ["Dispatcher"]

# HITL["DISPATCH"] selects this package, so it has no AppConfig that could register the settings.
register(Extension(name="hitl_django_q2", settings=ClusterSettings))
named_cluster.join_cluster()
broker_choice.watch_runs()
worker_process.connect_signals()
post_migrate.connect(
    schedules.install_schedules,
    sender=apps.get_app_config("hitl_django"),
    dispatch_uid="hitl_django.schedules",
)
