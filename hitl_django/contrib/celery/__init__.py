"""Celery as the task queue for messages to workers."""

from __future__ import annotations

from .dispatcher import CeleryDispatcher as Dispatcher

__all__ = ["Dispatcher"]
