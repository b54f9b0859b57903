"""Dispatcher that sends messages to workers as Celery tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from celery import current_app, current_task
from celery.exceptions import SoftTimeLimitExceeded, WorkerShutdown, WorkerTerminate
from django.core import checks
from django.db import connections, transaction

from hitl_django.db.alias import write_alias
from hitl_django.task_queue.dispatcher import TIME_SLICE, Dispatcher

from . import message_task

#: Share of a task's time limit after which a run is requeued, so that Celery doesn't kill the
#: worker.
PART = 0.6
#: Retry an unreachable broker only once, because the caller would otherwise wait for seconds. The
#: sweep sends the message again.
ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


class CeleryDispatcher(Dispatcher):
    """Dispatcher that sends each message as a Celery task after the commit.

    A message consists of a function's dotted path and the function's argument.

    ``options`` are arguments of ``apply_async``. A subclass can set ``options`` to route tasks. If
    a message is lost between the commit and the broker, the sweep sends it again. Celery runs the
    workers, so ``hitl worker`` only runs the sweep.
    """

    options: ClassVar[dict[str, Any]] = {}

    def enqueue(self, function: str, argument: str) -> None:
        def send() -> None:
            message_task.perform.apply_async(
                (function, argument), retry=True, retry_policy=ONCE_MORE, **self.options
            )

        transaction.on_commit(send, using=write_alias(), robust=True)

    def time_slice(self) -> float | None:
        conf = current_app.conf
        limits = [limit for limit in (conf.task_soft_time_limit, conf.task_time_limit) if limit]
        return min([TIME_SLICE, *(limit * PART for limit in limits)])

    def stop_errors(self) -> Mapping[type[BaseException], str]:
        request = current_task.request if current_task else None
        given = request.timelimit[1] if request is not None and request.timelimit else None
        limit = given or current_app.conf.task_soft_time_limit
        return {
            SoftTimeLimitExceeded: f"exceeded Celery's soft time limit ({limit} s)",
            WorkerShutdown: "Celery's worker shuts down",
            WorkerTerminate: "Celery's worker shuts down",
        }

    def check(self) -> Sequence[checks.CheckMessage]:
        return [*_eager(), *_connections()]

    def probe(self) -> Sequence[checks.CheckMessage]:
        try:
            with current_app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, timeout=2)
        except Exception as error:  # The broker's library may raise any exception.
            return [
                checks.Critical(
                    f"Celery's broker can't be reached: {type(error).__name__}: {error}",
                    hint="Start the broker, or fix its URL. No runs are lost; the sweep "
                    "resends their messages.",
                    id="hitl_django.E037",
                )
            ]
        return ()


def _eager() -> Iterator[checks.CheckMessage]:
    if current_app.conf.task_always_eager:
        yield checks.Warning(
            "Celery's task_always_eager is on: runs execute in the process that starts them.",
            hint="Turn it off. In tests, use hitl_django.testing.",
            id="hitl_django.W019",
        )


def _connections() -> Iterator[checks.CheckMessage]:
    is_postgresql = connections[write_alias()].vendor == "postgresql"
    if is_postgresql and not current_app.conf.get("CELERY_DB_REUSE_MAX"):
        yield checks.Info(
            "Celery closes the connections to the database before and after each task, whatever "
            "CONN_MAX_AGE is, so each message opens another.",
            hint="Set CELERY_DB_REUSE_MAX, for example to 1000: after so many tasks Celery closes "
            "them.",
            id="hitl_django.I043",
        )
