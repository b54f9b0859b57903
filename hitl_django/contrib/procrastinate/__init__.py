"""Procrastinate as the task queue.

PostgreSQL notifies workers of messages.
"""

from __future__ import annotations

from .dispatcher import ProcrastinateDispatcher as Dispatcher

__all__ = ["Dispatcher"]
