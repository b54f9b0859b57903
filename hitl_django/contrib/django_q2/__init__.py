"""django-q2 as the task queue: it carries messages, and is never the source of truth."""

from __future__ import annotations

from . import named_cluster, worker_process
from .dispatcher import DjangoQ2Dispatcher as Dispatcher

__all__ = ["Dispatcher"]

named_cluster.join_cluster()
worker_process.connect_signals()
