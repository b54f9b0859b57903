"""Celery as the task queue for messages to workers."""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("celery"):
    from . import worker_process
    from .dispatcher import CeleryDispatcher as Dispatcher

__all__ = ["Dispatcher"]

worker_process.connect_signals()
