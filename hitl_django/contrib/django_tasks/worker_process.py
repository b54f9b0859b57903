"""Signal handlers of a worker process of Django's Tasks: every task of the product's is work.

Runs may share a queue with them, and a supervisor that hears nothing of those would take a worker
for idle that carries one out.
"""

from __future__ import annotations

from typing import Any

from hitl_django.worker import messages

from .framework import task_finished, task_started


def connect_signals() -> None:
    """Listen to the signals of tasks, in every process that carries some out."""
    task_started.connect(_begins, dispatch_uid=f"{__name__}.begins")
    task_finished.connect(_ends, dispatch_uid=f"{__name__}.ends")


def _begins(**kwargs: Any) -> None:
    messages.begin_task()


def _ends(**kwargs: Any) -> None:
    messages.end_task()
