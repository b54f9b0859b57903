"""The job as two tasks of django-q2. A crash between a task and its row repeats or loses steps."""

from __future__ import annotations

from collections.abc import Sequence

from django_q.tasks import async_task

from ..worker import signs
from .job import check, make_title, pay
from .models import Refund


def prepare() -> None:
    pass  # The tables are created by migrations.


def programs() -> Sequence[Sequence[str]]:
    return [("-m", "django", "qcluster")]


def start(key: str) -> None:
    refund, is_new = Refund.create(key)
    if is_new:
        async_task(check_refund, refund.pk, save=False)


def check_refund(pk: int) -> None:
    refund = Refund.objects.get(pk=pk)
    check(refund.cents)
    refund.title = make_title(refund.customer, refund.cents)
    refund.state = "pending"
    refund.save(update_fields=["title", "state"])
    signs.give("asked", "run")


def list_pending() -> list[int]:
    return Refund.list_pending()


def decide(request: int) -> None:
    if Refund.approve(request):
        async_task(settle, request, save=False)


def settle(pk: int) -> None:
    signs.give("next", "step")
    refund = Refund.objects.get(pk=pk)
    refund.outcome = pay(approved=bool(refund.approved))
    refund.state = "ended"
    refund.save(update_fields=["outcome", "state"])
    signs.give("ended", "run")
