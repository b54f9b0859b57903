"""Dispatcher that sends messages as Django Tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.apps import apps
from django.core import checks
from django.db import router, transaction

from hitl_django.db.alias import write_alias
from hitl_django.task_queue.dispatcher import Dispatcher

from . import message_task
from .framework import InvalidTaskBackend, task_backends

#: App that stores tasks in the database, and command that runs the app's worker.
DATABASE_APP, DATABASE_LABEL = "django_tasks_db", "django_tasks_database"
DATABASE_COMMAND = "db_worker"


class DjangoTasksDispatcher(Dispatcher):
    """Dispatcher that sends each message as a task.

    A message consists of a function's dotted path and the function's argument.

    A subclass can set another ``backend`` or ``queue``. If the database backend uses the runs'
    database, the task is inserted in the caller's transaction. Other backends get the task after
    the commit. If the process crashes after the commit and before the backend has the task, the
    sweep sends the message again.
    """

    backend: ClassVar[str] = "default"
    queue: ClassVar[str] = "default"

    def enqueue(self, function: str, argument: str) -> None:
        def send() -> None:
            chosen: Any = message_task.perform.using(backend=self.backend, queue_name=self.queue)
            chosen.enqueue(function, argument)

        if self._shares_transaction():
            send()
        else:
            transaction.on_commit(send, using=write_alias(), robust=True)

    def check(self) -> Sequence[checks.CheckMessage]:
        try:
            backend = task_backends[self.backend]
        except InvalidTaskBackend as error:
            return [
                checks.Error(
                    f"HITL['DISPATCH'] uses Django Tasks, but TASKS has no usable backend: {error}",
                    hint=f"Add {self.backend!r} to TASKS.",
                    id="hitl_django.E019",
                )
            ]
        queues = getattr(backend, "queues", None)
        if queues and self.queue not in queues:
            return [
                checks.Error(
                    f"TASKS[{self.backend!r}] has no queue {self.queue!r}.",
                    hint="Add it to the backend's QUEUES.",
                    id="hitl_django.E036",
                )
            ]
        name = type(backend).__name__
        if name in ("ImmediateBackend", "DummyBackend"):
            return [
                checks.Warning(
                    f"TASKS[{self.backend!r}] is the {name}, which has no workers: runs "
                    "execute in the process that starts them, or not at all.",
                    hint="Use a backend with workers, for example django_tasks_db.DatabaseBackend.",
                    id="hitl_django.W018",
                )
            ]
        return ()

    def command(self) -> Sequence[str]:
        if not self._is_database():
            return ()  # The backend has its own workers.
        return [
            DATABASE_COMMAND, "--skip-checks",  # The supervisor has run the checks.
            "--backend", self.backend, "--queue-name", self.queue,
            "--interval", "0.2", "--no-startup-delay", "--no-reload",
        ]  # fmt: skip

    def _is_database(self) -> bool:
        backend = task_backends[self.backend]
        return apps.is_installed(DATABASE_APP) and type(backend).__module__.startswith(DATABASE_APP)

    def _shares_transaction(self) -> bool:
        if not self._is_database():
            return False
        return router.db_for_write(apps.get_model(DATABASE_LABEL, "DBTaskResult")) == write_alias()
