"""Delivery of messages: in the transaction, after it, or not at all."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import pytest
from django.db import transaction
from django.test import override_settings
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from hitl_django import services, worker
from hitl_django.contrib.django_q2 import Dispatcher, schedules
from hitl_django.contrib.webhooks import delivery, tasks
from hitl_django.models import Interrupt, Run
from hitl_django.task_queue import dispatcher
from tests.messages import enqueue_run

pytestmark = pytest.mark.django_db(transaction=True)

INLINE = {"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}


@pytest.mark.promise("P9")
def test_enqueue_run_in_rolled_back_transaction_leaves_no_queue_row() -> None:
    with transaction.atomic():
        enqueue_run("an id")
        assert OrmQ.objects.count() == 1
        transaction.set_rollback(True)
    assert not OrmQ.objects.exists()


@pytest.mark.promise("P22")
def test_queued_message_contains_only_function_name_and_run_id() -> None:
    run = services.start("approval", {"text": "secret"})
    enqueue_run(run.id)
    task = SignedPackage.loads(OrmQ.objects.get().payload)
    assert (task["func"], task["args"]) == ("hitl_django.worker.advance", (str(run.id),))
    assert (task["kwargs"], task["ack_failure"], task["save"]) == ({}, True, False)


def test_external_broker_receives_message_only_after_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Another alias represents another database. The broker's location doesn't change.
    monkeypatch.setattr(Conf, "ORM", "elsewhere")
    sent: list[int] = []
    monkeypatch.setattr(
        "hitl_django.contrib.django_q2.dispatcher.async_task",
        lambda *args, **kwargs: sent.append(1),
    )
    with transaction.atomic():
        enqueue_run("an id")
        assert sent == []
    assert sent == [1]
    with transaction.atomic():
        enqueue_run("an id")
        transaction.set_rollback(True)
    assert sent == [1]


@pytest.mark.promise("P8")
def test_start_during_broker_outage_stores_a_queued_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(Conf, "ORM", "elsewhere")
    monkeypatch.setattr("hitl_django.contrib.django_q2.dispatcher.async_task", fail)
    run = services.start("steps", {"log": []})
    assert Run.objects.get(pk=run.id).state == "queued"


def test_start_with_synchronous_django_q_executes_run_once_without_queue_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Conf, "SYNC", True)
    advanced: list[str] = []
    monkeypatch.setattr(worker, "advance", advanced.append)
    run = services.start("steps", {"log": []})
    assert advanced == [str(run.id)]
    assert not OrmQ.objects.exists()


class RowlessDispatcher(dispatcher.Dispatcher):
    """A queue that implements only the required method."""

    sent: ClassVar[list[tuple[str, str]]] = []

    def enqueue(self, function: str, argument: str) -> None:
        assert Run.objects.filter(pk=argument).exists()
        self.sent.append((function, argument))


def test_custom_dispatcher_with_only_enqueue_receives_run_id_of_started_run() -> None:
    path = f"{__name__}.RowlessDispatcher"
    RowlessDispatcher.sent.clear()
    with override_settings(HITL={"DISPATCH": path}):
        run = services.start("steps", {"log": []})
        assert RowlessDispatcher.sent == [("hitl_django.worker.advance", str(run.id))]
        queue = dispatcher.get_dispatcher()
        assert dispatcher.get_time_slice() == 60
        assert [*queue.check(), *queue.probe(), *queue.command()] == []


@pytest.mark.parametrize(
    ("message", "module", "name"),
    [
        (dispatcher.ADVANCE, worker, "advance"),
        (tasks.DELIVER, delivery, "deliver"),
        (dispatcher.SWEEP, worker, "sweep"),
    ],
)
def test_worker_executing_queued_message_calls_the_function_named_in_the_message(
    monkeypatch: pytest.MonkeyPatch, message: str, module: ModuleType, name: str
) -> None:
    called: list[str] = []
    monkeypatch.setattr(module, name, called.append)
    async_task(message, "an id", sync=True)  # imported and called as a cluster does
    assert called == ["an id"]


def test_inline_dispatcher_executes_run_after_commit() -> None:
    with override_settings(HITL=INLINE):
        with transaction.atomic():
            run = services.start("approval", {"text": "x"})
            assert Run.objects.get().state == "queued"
        assert Run.objects.get().state == "interrupted"
        services.decide(Interrupt.objects.get().pk, "approve")
    assert Run.objects.get(pk=run.id).state == "succeeded"


def test_time_slice_is_sixty_percent_of_queue_timeout_unless_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Conf, "TIMEOUT", 100)
    assert Dispatcher().time_slice() == 60
    assert dispatcher.get_time_slice() == 60
    with override_settings(HITL={"TIME_SLICE_SECONDS": 5}):
        assert dispatcher.get_time_slice() == 5
    monkeypatch.setattr(Conf, "TIMEOUT", None)
    assert dispatcher.get_time_slice() is None


def test_install_schedules_creates_sweep_schedules_once_and_preserves_changed_interval() -> None:
    def names() -> list[str]:
        rows = Schedule.objects.filter(name__startswith=schedules.NAME)
        return list(rows.order_by("name").values_list("name", flat=True))

    Schedule.objects.all().delete()
    for _ in range(2):
        schedules.install_schedules(using="default")
        assert names() == ["hitl_django sweep 1", "hitl_django sweep 2"]
    Schedule.objects.filter(name=names()[0]).update(minutes=7)
    schedules.install_schedules(using="default")
    assert Schedule.objects.get(name=names()[0]).minutes == 7
    with override_settings(HITL={"SWEEP_SECONDS": 120}):
        schedules.install_schedules(using="default")
        assert names() == ["hitl_django sweep 1"]


def test_install_schedules_before_schedule_table_exists_creates_no_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Schedule.objects.all().delete()
    monkeypatch.setattr(Schedule._meta, "db_table", "not_yet_migrated")
    schedules.install_schedules(using="default")
    monkeypatch.undo()
    assert not Schedule.objects.exists()
