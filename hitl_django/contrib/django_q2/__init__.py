"""django-q2 as the task queue. It only carries messages; the state of runs is in the database."""

from __future__ import annotations

from . import named_cluster, worker_process
from .dispatcher import DjangoQ2Dispatcher as Dispatcher

__all__ = ["Dispatcher"]

named_cluster.join_cluster()
worker_process.connect_signals()
