"""Dispatchers of other task queues: invalid settings, and sent messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery.signals import worker_ready
from django.apps import apps
from django.db import transaction
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.contrib.celery import Dispatcher as CeleryDispatcher
from hitl_django.contrib.django_tasks import Dispatcher as TasksDispatcher
from hitl_django.contrib.procrastinate import Dispatcher as ProcrastinateDispatcher
from hitl_django.models import WorkerHeartbeat
from hitl_django.task_queue import heartbeat
from hitl_django.task_queue.dispatcher import ADVANCE, REPORT, list_functions
from hitl_django.worker import messages
from hitl_django.worker.sweeper import sweep
from tests.celery_app import make_app


class Elsewhere(TasksDispatcher):
    backend = "elsewhere"


class Runs(TasksDispatcher):
    queue = "runs"


def faults(dispatcher: Any) -> list[str]:
    return [found.id for found in dispatcher.check()]


def test_dispatcher_check_reports_django_tasks_without_configured_backend_or_queue(
    settings: Any,
) -> None:
    assert faults(TasksDispatcher()) == []
    assert faults(Elsewhere()) == ["hitl_django.E019"]
    assert faults(Runs()) == ["hitl_django.E036"]
    assert TasksDispatcher().command()[0] == "db_worker"


@pytest.mark.parametrize("name", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_dispatcher_check_reports_django_tasks_with_immediate_or_dummy_backend(
    settings: Any, name: str
) -> None:
    from hitl_django.contrib.django_tasks import framework

    home = framework.task_backends.__module__
    settings.TASKS = {"default": {"BACKEND": f"{home}.backends.{name}"}}
    assert faults(TasksDispatcher()) == ["hitl_django.W018"]
    assert TasksDispatcher().command() == ()


@pytest.mark.django_db(transaction=True)
def test_django_tasks_dispatcher_subclass_enqueues_to_its_configured_queue(settings: Any) -> None:
    settings.TASKS = {
        "default": {
            "BACKEND": "django_tasks_db.DatabaseBackend",
            "QUEUES": ["default", "runs"],
        }
    }
    with transaction.atomic():
        Runs().enqueue(ADVANCE, "an id")
    row = apps.get_model("django_tasks_database", "DBTaskResult")._default_manager.get()
    assert row.queue_name == "runs"
    assert row.args_kwargs == {"args": [ADVANCE, "an id"], "kwargs": {}}
    assert Runs().time_slice() == 60
    assert Runs().command()[-6:-3] == ["--queue-name", "runs", "--interval"]


def test_celery_dispatcher_check_reports_eager_mode_and_task_limit_shortens_time_slice() -> None:
    app = make_app("memory://")
    assert faults(CeleryDispatcher()) == []
    assert CeleryDispatcher().time_slice() == 60
    assert CeleryDispatcher().probe() == ()
    app.conf.task_time_limit = 50
    assert CeleryDispatcher().time_slice() == 30
    app.conf.task_always_eager = True
    assert faults(CeleryDispatcher()) == ["hitl_django.W019"]
    app.close()


@pytest.mark.promise("P7")
@pytest.mark.django_db(transaction=True)
def test_celery_worker_that_starts_requeues_runs_whose_messages_were_fetched_before(
    settings: Any,
) -> None:
    settings.HITL = {**settings.HITL, "DISPATCH": "hitl_django.contrib.celery.Dispatcher"}
    app = make_app("memory://")
    with app.connection_for_read() as connection:
        fetched = connection.SimpleQueue("celery")
        run = services.start("steps", {"log": []})
        for _ in range(2):
            # The message isn't acknowledged, like a message that a killed worker has fetched.
            message = fetched.get(block=False)
            assert message.payload[0] == [ADVANCE, str(run.id)]
            worker_ready.send(None)
    app.close()


def test_dispatcher_check_reports_procrastinate_missing_in_installed_apps(settings: Any) -> None:
    settings.INSTALLED_APPS = [
        name for name in settings.INSTALLED_APPS if name != "tests.queue_app.QueueConfig"
    ]
    assert faults(ProcrastinateDispatcher()) == ["hitl_django.E038"]


@pytest.mark.database("sqlite")
def test_dispatcher_check_reports_procrastinate_on_database_other_than_postgresql(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apps, "is_installed", lambda name: True)
    assert faults(ProcrastinateDispatcher()) == ["hitl_django.E039"]


@pytest.mark.django_db(transaction=True)
def test_sweep_enqueues_one_task_that_makes_an_idle_worker_write_its_heartbeat(
    settings: Any,
) -> None:
    settings.HITL = {**settings.HITL, "DISPATCH": "hitl_django.contrib.django_tasks.Dispatcher"}
    rows = apps.get_model("django_tasks_database", "DBTaskResult")._default_manager
    WorkerHeartbeat.objects.create(owner="worker:1", host="worker", pid=1)
    WorkerHeartbeat.objects.update(at=Now() - timedelta(minutes=10))
    assert services.find_worker_outage() is not None
    sweep()
    row = rows.get()
    heartbeat._reported = None
    messages.perform(*row.args_kwargs["args"])
    assert services.find_worker_outage() is None
    assert services.worker_health().workers == 1
    sweep()
    assert rows.count() == 1


@pytest.mark.parametrize("kind", [CeleryDispatcher, ProcrastinateDispatcher, TasksDispatcher])
def test_dispatcher_whose_workers_do_not_report_when_idle_has_a_report_task_function(
    kind: Any,
) -> None:
    assert not kind().reports_when_idle()
    assert REPORT in list_functions()
