"""Recovery of runs when a Celery worker starts, or connects to its broker again.

A Celery worker fetches some messages before its processes are free. If the worker is killed, the
broker doesn't deliver these messages soon: Redis keeps them for the visibility timeout, by default
an hour. If the broker has restarted, its messages may be lost.
"""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready
from django.db import connections

from hitl_django.worker import sweep


def connect_signals() -> None:
    """Connect to Celery's signal ``worker_ready``. This must be done in every process."""
    worker_ready.connect(_recover, dispatch_uid=f"{__name__}.recover")


def _recover(**kwargs: Any) -> None:
    try:
        sweep(after_restart=True)
    finally:
        # This process rarely uses the database again. By default, it executes no tasks.
        connections.close_all()
