"""What the dispatchers of other queues say of settings that can't work, and what they send."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
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


def test_tasks_without_backend_or_queue_fail_a_check(settings: Any) -> None:
    assert faults(TasksDispatcher()) == []
    assert faults(Elsewhere()) == ["hitl_django.E019"]
    assert faults(Runs()) == ["hitl_django.E036"]
    assert TasksDispatcher().command()[0] == "db_worker"


@pytest.mark.parametrize("name", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_tasks_immediate_backend_fails_a_check(settings: Any, name: str) -> None:
    from hitl_django.contrib.django_tasks import framework

    home = framework.task_backends.__module__
    settings.TASKS = {"default": {"BACKEND": f"{home}.backends.{name}"}}
    assert faults(TasksDispatcher()) == ["hitl_django.W018"]
    assert TasksDispatcher().command() == ()


@pytest.mark.django_db(transaction=True)
def test_subclass_sends_to_its_queue(settings: Any) -> None:
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
    assert Runs().command()[-6:-3] == ["--queue-name", "runs", "--interval"]


def test_celery_eager_mode_is_reported_and_limits_shorten_the_slice() -> None:
    app = make_app("memory://")
    app.conf.CELERY_DB_REUSE_MAX = 1000
    assert faults(CeleryDispatcher()) == []
    assert CeleryDispatcher().time_slice() == 60
    assert CeleryDispatcher().probe() == ()
    app.conf.task_time_limit = 50
    assert CeleryDispatcher().time_slice() == 30
    app.conf.task_always_eager = True
    assert faults(CeleryDispatcher()) == ["hitl_django.W019"]
    app.close()


def test_procrastinate_requires_its_app_and_postgresql(settings: Any) -> None:
    settings.INSTALLED_APPS = [
        name for name in settings.INSTALLED_APPS if name != "tests.queue_app.QueueConfig"
    ]
    assert faults(ProcrastinateDispatcher()) == ["hitl_django.E038"]


@pytest.mark.database("sqlite")
def test_procrastinate_requires_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "is_installed", lambda name: True)
    assert faults(ProcrastinateDispatcher()) == ["hitl_django.E039"]


@pytest.mark.django_db(transaction=True)
def test_idle_worker_reports_when_the_sweep_requests_it(settings: Any) -> None:
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
def test_queue_without_idle_task_gets_one(kind: Any) -> None:
    assert not kind().reports_when_idle()
    assert REPORT in list_functions()
