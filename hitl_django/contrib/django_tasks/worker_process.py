"""Signal handlers of Django Tasks worker processes.

The handlers report the start and the end of every task to the worker's supervisor. Runs may share a
queue with tasks of the project. Without these reports, a worker that executes a task of the project
would seem idle to the supervisor.
"""

from __future__ import annotations

from typing import Any

from hitl_django.worker import messages

from .framework import task_finished, task_started


def connect_signals() -> None:
    """Connect to the signals of tasks, in every process that executes tasks."""
    task_started.connect(_begins, dispatch_uid=f"{__name__}.begins")
    task_finished.connect(_ends, dispatch_uid=f"{__name__}.ends")


def _begins(**kwargs: Any) -> None:
    messages.begin_task()


def _ends(**kwargs: Any) -> None:
    messages.end_task()
