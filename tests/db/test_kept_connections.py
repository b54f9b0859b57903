"""Database connections of worker processes: one for all tasks, unless configured otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.db import close_old_connections, connection, connections
from django.db.backends.signals import connection_created
from django_q.brokers.orm import ORM

from hitl_django.contrib.celery import Dispatcher as CeleryDispatcher
from hitl_django.db.connections import close_connections, keep_connections
from hitl_django.task_queue import supervisor_pipe
from tests.celery_app import make_app

pytestmark = [
    pytest.mark.database("postgresql"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def database() -> Iterator[dict[str, Any]]:
    settings = connection.settings_dict
    before = dict(settings)
    settings |= {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
    yield settings
    settings |= before


def count_connections(tasks: int) -> int:
    """Execute tasks like a worker of django-q2, and return the number of opened connections."""
    opened: list[object] = []

    def note(**about: Any) -> None:
        opened.append(about["connection"])

    def work() -> None:
        for _ in range(tasks):
            close_old_connections()
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT 1")
            ORM(list_key="none").queue_size()
        close_connections()

    connection_created.connect(note)
    try:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(work).result(60)
    finally:
        connection_created.disconnect(note)
    return len(opened)


def start_as(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", *command])
    apps.get_app_config("hitl_django").ready()


@pytest.mark.parametrize("dispatcher", ["django_q2", "django_tasks", "procrastinate"])
def test_worker_command_uses_one_database_connection_for_all_tasks(
    dispatcher: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    commands = {
        "django_q2": "qcluster",
        "django_tasks": "db_worker",
        "procrastinate": "procrastinate",
    }
    settings.HITL = {**settings.HITL, "DISPATCH": f"hitl_django.contrib.{dispatcher}.Dispatcher"}
    start_as(monkeypatch, "runserver")
    assert count_connections(3) > 3  # django-q2's broker opens other connections within a task
    start_as(monkeypatch, commands[dispatcher], "worker")
    assert count_connections(3) == 1


def test_supervised_process_uses_one_database_connection_for_all_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_pipe, "is_supervised", lambda: True)
    start_as(monkeypatch)
    assert count_connections(3) == 1


def test_database_connection_closed_by_server_is_replaced_for_next_task() -> None:
    keep_connections()

    def work() -> None:
        for _ in range(2):
            close_old_connections()
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                (pid,) = cursor.fetchone()
            end_backend(pid)
        close_connections()

    def end_backend(pid: int) -> None:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(terminate, pid).result(60)

    def terminate(pid: int) -> None:
        with connections["default"].cursor() as cursor:
            # Wait for the connection to end, so that the next task gets a dead connection.
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            assert cursor.fetchone() == (True,)
        close_connections()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result(60)


@pytest.mark.parametrize("given", [{"CONN_MAX_AGE": 60}, {"OPTIONS": {"pool": {"min_size": 1}}}])
def test_keep_connections_leaves_conn_max_age_and_pool_of_project_unchanged(
    given: dict[str, Any], database: dict[str, Any]
) -> None:
    database |= given
    expected = dict(database)
    keep_connections()
    assert database == expected


def test_celery_dispatcher_check_reports_reconnecting_to_database_for_each_task(
    database: dict[str, Any],
) -> None:
    def found() -> list[str | None]:
        messages: list[checks.CheckMessage] = list(CeleryDispatcher().check())
        return [each.id for each in messages]

    app = make_app("memory://")
    app.conf.CELERY_DB_REUSE_MAX = None
    assert found() == ["hitl_django.I043"]
    database["CONN_MAX_AGE"] = 60  # Celery ignores the setting
    assert found() == ["hitl_django.I043"]
    app.conf.CELERY_DB_REUSE_MAX = 1000
    assert found() == []
    app.close()
