"""The task queues with their workers, configured as in their guides."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..stores import POSTGRES, SQLITE
from ..worker.cluster import WORKER

#: Environment variable that contains the number of workers.
VARIABLE = "HITL_BENCH_WORKERS"

Programs = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """A task queue and its broker.

    Each worker executes one run at a time.
    """

    title: str
    database: str
    dispatcher: str
    #: The programs to start, as a function of the number of workers.
    programs: Callable[[int], Programs]
    #: For a Redis broker: the environment variable that contains its URL, and the URL format of its
    #: socket.
    broker: tuple[str, str] | None = None

    def environment(self, workers: int) -> dict[str, str]:
        """Return the environment of the queue's processes for a number of workers."""
        cluster = {"workers": workers}
        return {VARIABLE: str(workers), "TEST_Q_CLUSTER": json.dumps(cluster)}


def _one(workers: int) -> Programs:
    return [WORKER]


def _each(workers: int) -> Programs:
    return [WORKER] * workers


def _celery(workers: int) -> Programs:
    celery = ["-m", "celery", "-A", "tests.celery_app", "worker", "--without-gossip"]
    return [[*celery, "--concurrency", str(workers)], WORKER]


def _rq(workers: int) -> Programs:
    rq = ["-m", "django", "rqworker", "default", "--job-class", "django_tasks_rq.Job"]
    return [*[rq] * workers, WORKER]


_PATH = "hitl_django.contrib.{}.Dispatcher"

QUEUES = {
    "django-q2-sqlite": TaskQueue(
        "django-q2, in SQLite", SQLITE, _PATH.format("django_q2"), _one
    ),
    "django-q2-postgres": TaskQueue(
        "django-q2, in PostgreSQL", POSTGRES, _PATH.format("django_q2"), _one
    ),
    "django-q2-redis": TaskQueue(
        "django-q2, in Redis", POSTGRES, _PATH.format("django_q2"), _one,
        ("TEST_REDIS_URL", "unix://{}"),
    ),
    "tasks-sqlite": TaskQueue(
        "Django's Tasks, in SQLite", SQLITE, _PATH.format("django_tasks"), _each
    ),
    "tasks-postgres": TaskQueue(
        "Django's Tasks, in PostgreSQL", POSTGRES, _PATH.format("django_tasks"), _each
    ),
    "tasks-redis": TaskQueue(
        "Django's Tasks by RQ, in Redis", POSTGRES, _PATH.format("django_tasks"), _rq,
        ("TEST_RQ_SOCKET", "{}"),
    ),
    "celery-redis": TaskQueue(
        "Celery, in Redis", POSTGRES, _PATH.format("celery"), _celery,
        ("TEST_CELERY_BROKER", "redis+socket://{}"),
    ),
    "procrastinate-postgres": TaskQueue(
        "Procrastinate, in PostgreSQL", POSTGRES, f"{__package__}.threads.Threads", _one
    ),
}  # fmt: skip
