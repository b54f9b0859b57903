"""Celery with Redis: tasks are acknowledged when they end, so that a crash repeats them."""

from __future__ import annotations

import os

from celery import Celery

from .job import REDIS, WORKERS

app = Celery("refunds", broker=os.environ.get(REDIS, ""))
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
)


def list_programs(module: str) -> list[list[str]]:
    """Return the program of the worker whose tasks are in ``module``."""
    options = ["--concurrency", str(WORKERS), "--loglevel", "ERROR"]
    return [["-m", "celery", "-A", module, "worker", *options]]
