"""Dispatcher that sends messages as Procrastinate jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from django.apps import apps
from django.core import checks
from django.db import connections, transaction
from procrastinate.contrib.django import app
from procrastinate.contrib.django.settings import settings as procrastinate_settings

from hitl_django.db.alias import write_alias
from hitl_django.task_queue.dispatcher import Dispatcher

from . import message_task


class ProcrastinateDispatcher(Dispatcher):
    """Dispatcher that sends each message as a Procrastinate job.

    A message consists of a function's dotted path and the function's argument.

    PostgreSQL notifies workers of the job on commit. If Procrastinate uses the runs' database, the
    job is inserted in the caller's transaction, otherwise after the commit. A subclass can set
    another ``queue``. A subclass can also set the number of jobs that a process of ``hitl worker``
    runs concurrently, in OS threads with one connection each.
    """

    queue: ClassVar[str] = "hitl"
    concurrency: ClassVar[int] = 4

    def enqueue(self, function: str, argument: str) -> None:
        job = app.configure_task(message_task.NAME, queue=self.queue)
        send = partial(job.defer, function=function, argument=argument)
        if self._shares_transaction():
            send()
        else:
            transaction.on_commit(send, using=write_alias(), robust=True)

    def check(self) -> Sequence[checks.CheckMessage]:
        if not apps.is_installed("procrastinate.contrib.django"):
            return [
                checks.Error(
                    "HITL['DISPATCH'] uses Procrastinate, but "
                    "'procrastinate.contrib.django' is not in INSTALLED_APPS: its tables "
                    "are missing and no worker can start.",
                    hint="Add it to INSTALLED_APPS and run 'manage.py migrate', or use "
                    "another queue.",
                    id="hitl_django.E038",
                )
            ]
        if connections[procrastinate_settings.DATABASE_ALIAS].vendor != "postgresql":
            return [
                checks.Error(
                    "HITL['DISPATCH'] uses Procrastinate, but its database isn't PostgreSQL.",
                    hint="Set PROCRASTINATE_DATABASE_ALIAS, or use another queue.",
                    id="hitl_django.E039",
                )
            ]
        return ()

    def command(self) -> Sequence[str]:
        return [
            "procrastinate", "worker", "--queues", self.queue,
            "--concurrency", str(self.concurrency), "--delete-jobs", "always",
        ]  # fmt: skip

    def _shares_transaction(self) -> bool:
        return write_alias() == procrastinate_settings.DATABASE_ALIAS
