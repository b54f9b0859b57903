"""django-q2 broker that wakes workers when runs are due."""

from __future__ import annotations

import time
from typing import Any

from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf

from hitl_django.task_queue import dispatcher
from hitl_django.task_queue.due_runs import TICK, RunWatch

from . import named_cluster, wake_up
from .dispatcher import send

#: The id of a task and the packed task. A task without an id isn't acknowledged.
Packed = tuple[int | None, str]


class RunBroker(ORM):
    """django-q2's ORM broker, extended so that it also returns tasks for due runs.

    Such a task makes a worker execute due runs until none is left. If runs are still due, the
    broker returns another such task, but only after a worker has begun the last one, or the last
    one has expired. The tasks in the ORM broker's table are fetched every ``poll`` seconds.
    """

    _next_fetch = -float("inf")

    def __init__(self, list_key: Any = None) -> None:
        super().__init__(list_key)
        self._watch = RunWatch()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._watch = RunWatch()

    def dequeue(self) -> list[Packed]:
        tasks = self._fetch() if time.monotonic() >= self._next_fetch else []
        if self._executes_runs() and not wake_up.is_outstanding() and self._watch.is_any_due():
            wake_up.note_sent()
            tasks.append((None, _pack_wake_up()))
        if not tasks:
            self._rest()
        return tasks

    def _fetch(self) -> list[Packed]:
        due = self.get_connection().filter(key=self.list_key, lock__lt=timezone.now())
        # django-q2 sleeps if it finds no task.
        tasks: list[Packed] = (super().dequeue() or []) if due.exists() else []
        if not tasks:
            self._next_fetch = time.monotonic() + Conf.POLL
        return tasks

    def _rest(self) -> None:
        left = max(0.0, self._next_fetch - time.monotonic())
        if not self._executes_runs():
            time.sleep(left)
        elif wake_up.is_outstanding():
            time.sleep(TICK)
        else:
            self._watch.wait(left)

    def _executes_runs(self) -> bool:
        is_ours = self.list_key == named_cluster.get_cluster_of_runs()
        return is_ours and dispatcher.get_dispatcher().watches_runs()


class _PackingBroker:
    """Broker that doesn't send the signed task from ``async_task``, but keeps it in ``packed``."""

    list_key = packed = ""

    def enqueue(self, task: str) -> None:
        self.packed = task


def _pack_wake_up() -> str:
    broker = _PackingBroker()
    send(dispatcher.ADVANCE_DUE, "", broker=broker)
    return broker.packed
