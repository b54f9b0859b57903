"""App configuration."""

from __future__ import annotations

import sys
from importlib import import_module

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class HitlConfig(AppConfig):
    """App configuration that loads graphs, system checks and the task queue."""

    name = "hitl_django"
    label = "hitl_django"
    verbose_name = _("Reviews and runs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django import checks  # noqa: F401  # Registers the system checks.
        from hitl_django.db.connections import keep_connections
        from hitl_django.task_queue import parent_death

        parent_death.follow_parent()
        _load_queue()
        if _is_worker():
            keep_connections()
            # Imported before the queue forks its workers, so that they share the memory.
            import_module("hitl_django.worker")
        autodiscover_modules("graphs")


def _load_queue() -> None:
    """Import the dispatcher and the task queue before the task queue forks its worker processes."""
    from hitl_django.task_queue import dispatcher

    try:
        dispatcher.get_dispatcher()
    except Exception:  # A system check reports the error.
        pass


def _is_worker() -> bool:
    from hitl_django.task_queue import dispatcher, supervisor_pipe

    if supervisor_pipe.is_supervised():
        return True
    try:
        command = dispatcher.get_dispatcher().command()
    except Exception:  # A system check reports the error.
        return False
    # No queue announces all of its processes. For example, django-q2 sends a signal in workers, but
    # not in processes that fetch and acknowledge messages.
    return bool(command) and sys.argv[1:2] == [command[0]]
