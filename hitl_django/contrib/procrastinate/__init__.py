"""Procrastinate as the task queue: PostgreSQL says itself when a message is there."""

from __future__ import annotations

from .dispatcher import ProcrastinateDispatcher as Dispatcher

__all__ = ["Dispatcher"]
