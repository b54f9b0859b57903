"""Recovery after chaos: sweeps, workers and reviewers continue until all runs have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django_q.models import OrmQ

from hitl_django import services
from hitl_django.errors import AlreadyDecidedError, RunStateError
from hitl_django.models import Interrupt, Run
from hitl_django.task_queue import dispatcher, due_runs
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep

from .graphs import reply

PATIENCE = 120
#: Short enough for tests to wait, and long enough for a live worker.
IMPATIENT = {"LEASE_SECONDS": 1, "HEARTBEAT_SECONDS": 0.3, "SWEEP_SECONDS": 0.05}
DUE = (Run.State.QUEUED, Run.State.RUNNING, Run.State.WAITING)


def deliver(times: int = 1, most: int | None = None) -> int:
    """Execute the messages in the queue and the due runs, each ``times`` times.

    Returns the number of messages and due runs.
    """
    count = _deliver_messages(times, most)
    due = due_runs.select_due().values_list("pk", flat=True)
    for run in list(due[: None if most is None else most - count]):
        count += 1
        for _ in range(times):
            runner.advance(str(run))
    return count


def _deliver_messages(times: int, most: int | None) -> int:
    count = 0
    while count != most and (row := OrmQ.objects.order_by("pk").first()) is not None:
        task = row.task
        # Exactly one caller takes a message, because of the conditional write that the cluster also
        # uses.
        with transaction.atomic():
            taken, _ = OrmQ.objects.filter(pk=row.pk).delete()
        if taken and task["func"] == dispatcher.ADVANCE:
            count += 1
            for _ in range(times):
                runner.advance(*task["args"])
    return count


def answer(runs: Iterable[Any] | None = None, most: int | None = None) -> int:
    """Respond to the pending interrupts like a reviewer who may have tried before."""
    asked = Interrupt.objects.filter(status="pending", run__state__in=Run.ANSWERABLE)
    if runs is not None:
        asked = asked.filter(run__in=list(runs))
    count = 0
    for pk, interrupt in asked.values_list("pk", "payload")[:most]:
        try:
            services.decide(pk, "respond", reply(interrupt), key="the reviewer's")
        except (AlreadyDecidedError, RunStateError):
            continue  # Another reviewer was faster, or the run has ended in the meantime.
        count += 1
    return count


def settle(answering: bool = True) -> None:
    """Run sweeps, workers and, optionally, reviewers until no work is left."""
    deadline = time.monotonic() + PATIENCE
    while True:
        sweep()
        done = deliver()
        if answering:
            done += answer()
        if done:
            continue
        if not Run.objects.filter(state__in=DUE).exists():
            return
        assert time.monotonic() < deadline, list(Run.objects.filter(state__in=DUE).values())
        threading.Event().wait(0.02)


def finish(answer: Callable[[], int]) -> None:
    """Run sweeps, workers and a custom reviewer until all runs have ended."""
    deadline = time.monotonic() + PATIENCE
    while Run.objects.filter(state__in=Run.ACTIVE).exists():
        assert time.monotonic() < deadline, list(Run.objects.values("state", "error"))
        sweep()
        if not deliver() + answer():
            threading.Event().wait(0.02)


def state_of(run: UUID | str) -> str:
    return str(Run.objects.values_list("state", flat=True).get(pk=run))
