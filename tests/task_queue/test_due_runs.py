"""The selection of due runs, and the watch that waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.models import Thread
from hitl_django.task_queue import due_runs

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20


def test_run_is_not_due_while_a_direct_call_has_the_lease_of_its_thread() -> None:
    services.start("steps", {"log": []})
    Thread.objects.update(lease_until=Now() + timedelta(minutes=1))
    assert due_runs.find_due("") == []
    Thread.objects.update(lease_until=Now() - timedelta(minutes=1))
    assert [run.graph for run in due_runs.find_due("")] == ["steps"]


def in_thread(act: Callable[[], object]) -> None:
    """Call a function on another connection, a short time after the caller continues."""

    def call() -> None:
        try:
            act()
        finally:
            connection.close()

    timer = threading.Timer(0.1, call)
    timer.start()


@pytest.mark.promise("P8")
def test_run_watch_is_woken_when_a_start_in_another_process_commits() -> None:
    watch = due_runs.RunWatch()
    assert not watch.is_any_due()

    def start() -> None:
        with transaction.atomic():
            services.start("steps", {"log": []})

    in_thread(start)
    began = time.monotonic()
    watch.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    assert watch.is_any_due()


def test_run_watch_without_connection_waits_for_the_given_time() -> None:
    watch = due_runs.RunWatch()
    watch.is_any_due()
    connection.close()
    began = time.monotonic()
    watch.wait(0.05)
    assert time.monotonic() - began >= 0.05
