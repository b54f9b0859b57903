"""Heartbeats of processes after work."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.models import WorkerHeartbeat
from hitl_django.task_queue import heartbeat


@pytest.fixture(autouse=True)
def _unreported(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_reported", None)


def test_report_work_updates_heartbeat_of_its_process_only_after_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heartbeat.report_work()
    row = WorkerHeartbeat.objects.get()
    WorkerHeartbeat.objects.update(at=Now() - timedelta(hours=1))
    heartbeat.report_work()
    assert services.worker_health().workers == 0
    monkeypatch.setattr(heartbeat, "_reported", None)
    heartbeat.report_work()
    assert WorkerHeartbeat.objects.get().pk == row.pk
    health = services.worker_health()
    assert (health.workers, health.is_alive, health.is_missing) == (1, True, False)


def test_report_work_in_forked_process_creates_a_separate_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heartbeat.report_work()
    monkeypatch.setattr("os.getpid", lambda: 4_000_000)
    heartbeat.report_work()
    assert WorkerHeartbeat.objects.count() == 2


def test_report_work_deletes_heartbeats_older_than_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    WorkerHeartbeat.objects.create(owner="old:1", host="old", pid=1)
    WorkerHeartbeat.objects.update(at=Now() - timedelta(days=2))
    heartbeat.report_work()
    assert [row.owner == "old:1" for row in WorkerHeartbeat.objects.all()] == [False]


def test_report_work_that_fails_to_write_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def fail(pid: int) -> None:
        tried.append(pid)
        raise DatabaseError

    monkeypatch.setattr(heartbeat, "_write", fail)
    heartbeat.report_work()
    assert tried == [os.getpid()]
