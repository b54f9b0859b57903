"""Django Tasks as the task queue: ``django.tasks`` of Django 6.0, or its backport."""

from __future__ import annotations

from . import worker_process
from .dispatcher import DjangoTasksDispatcher as Dispatcher

__all__ = ["Dispatcher"]

worker_process.connect_signals()
