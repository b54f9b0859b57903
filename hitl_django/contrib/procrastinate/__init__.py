"""Procrastinate as the task queue.

PostgreSQL notifies workers of messages.
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("procrastinate"):
    from .dispatcher import ProcrastinateDispatcher as Dispatcher

__all__ = ["Dispatcher"]
