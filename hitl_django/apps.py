"""The app: finds the graphs, registers the checks, and asks the queue for a regular sweep."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class HitlConfig(AppConfig):
    """Durable graphs with people in the loop."""

    name = "hitl_django"
    label = "hitl_django"
    verbose_name = _("Reviews and runs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Both register something: the checks, and the dialects that a graph's policy may name.
        from hitl_django import answers, checks  # noqa: F401
        from hitl_django.db.connections import keep_connections
        from hitl_django.task_queue import parent_death

        parent_death.follow_parent()
        _load_queue()
        if _is_worker():
            keep_connections()
        autodiscover_modules("graphs")
        post_migrate.connect(install_schedules, sender=self, dispatch_uid="hitl_django.schedules")


def _load_queue() -> None:
    """Import the queue's half of us, which has to be there before the queue forks its workers."""
    from hitl_django.task_queue import dispatcher

    try:
        dispatcher.get_dispatcher()
    except Exception:  # a system check says what
        pass


def _is_worker() -> bool:
    from hitl_django.task_queue import dispatcher, supervisor_pipe

    if supervisor_pipe.is_supervised():
        return True
    try:
        command = dispatcher.get_dispatcher().command()
    except Exception:  # a system check says why
        return False
    # No queue announces all of its processes: django-q2 sends a signal in workers alone, and not in
    # those that fetch messages and acknowledge them.
    return bool(command) and sys.argv[1:2] == [command[0]]


def install_schedules(*, using: str, **kwargs: Any) -> None:
    """Let the queue arrange for the sweep, without which a lost message is lost for good."""
    from hitl_django.task_queue import dispatcher

    dispatcher.get_dispatcher().install(using)
