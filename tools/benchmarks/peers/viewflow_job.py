"""The job with Viewflow: the request is a task of the flow, other steps are jobs in Celery.

Viewflow's own node for Celery isn't free software, so ``Job`` is based on ``AbstractJob``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import transaction  # noqa: E402
from viewflow import this  # noqa: E402
from viewflow.workflow import STATUS, flow, lock, nodes  # noqa: E402
from viewflow.workflow.flow import views  # noqa: E402
from viewflow.workflow.models import Process, Task  # noqa: E402
from viewflow.workflow.nodes.job import AbstractJob, AbstractJobActivation  # noqa: E402

from ..worker import signs  # noqa: E402
from .celery_app import app, list_programs  # noqa: E402
from .job import CENTS, CUSTOMER, check, make_title, pay  # noqa: E402


class JobActivation(AbstractJobActivation):
    @nodes.job.Activation.status.transition(source=STATUS.NEW, target=STATUS.SCHEDULED)
    def schedule(self) -> None:
        self.task.save()
        pk = self.task.pk
        transaction.on_commit(lambda: execute.delay(pk))

    @nodes.job.Activation.status.super()
    def activate(self) -> None:
        self.schedule()


class Job(AbstractJob):
    activation_class = JobActivation

    def __init__(self, function: Callable[[Any], None], **options: Any) -> None:
        super().__init__(**options)
        self.function = function


def check_refund(activation: Any) -> None:
    data = activation.process.data
    activation.process.data = {**data, "checked": check(data["cents"])}
    activation.process.save()


def settle(activation: Any) -> None:
    signs.give("next", "step")
    data = activation.process.data
    activation.process.data = {**data, "outcome": pay(approved=data["approved"])}
    activation.process.save()


class RefundFlow(flow.Flow):
    process_class = Process
    lock_impl = lock.select_for_update_lock

    start = flow.StartHandle().Next(this.check)
    check = Job(check_refund).Next(this.review)
    review = flow.View(views.UpdateProcessView.as_view(fields=[])).Next(this.settle)
    settle = Job(settle).Next(this.end)
    end = flow.End()


@app.task
def execute(pk: int) -> None:
    with Task.objects.get(pk=pk).activation() as activation:
        activation.start()
        activation.flow_task.function(activation)
        activation.execute()
        word = "asked" if activation.flow_task.name == "check" else "ended"
        transaction.on_commit(lambda: signs.give(word, "run"))


@cache
def _reviewer() -> User:
    return User.objects.get_or_create(username="reviewer", is_superuser=True)[0]


def prepare() -> None:
    pass  # The tables are created by migrations.


def programs() -> Sequence[Sequence[str]]:
    return list_programs(__name__)


def start(key: str) -> None:
    title = make_title(CUSTOMER, CENTS)
    data = {"key": key, "customer": CUSTOMER, "cents": CENTS, "title": title}
    # Viewflow has no idempotency keys.
    with transaction.atomic():
        RefundFlow.start.run(_process_data=data)


def list_pending() -> list[int]:
    pending = Task.objects.filter(flow_task=RefundFlow.review, status=STATUS.NEW)
    return list(pending.values_list("pk", flat=True))


def decide(request: int) -> None:
    with Task.objects.get(pk=request).activation() as activation:
        activation.assign(_reviewer())
        activation.start(None)
        process = activation.process
        process.data = {**process.data, "approved": True}
        process.save()
        activation.execute()
