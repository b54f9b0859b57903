"""django-q2 as the queue: a good carrier of hints, and never the source of truth."""

from __future__ import annotations

from . import worker_process
from .dispatcher import Dispatcher

__all__ = ["Dispatcher"]

worker_process.connect()
