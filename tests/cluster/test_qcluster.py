"""The real qcluster with the test database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ, Schedule
from django_q.scheduler import scheduler

from hitl_django import services
from hitl_django.contrib.django_q2 import schedules
from hitl_django.models import Interrupt, Run
from hitl_django.task_queue import dispatcher

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120


@pytest.fixture
def qcluster(database_url: str, tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Return a function that starts qcluster and returns its log.

    The cluster stops with the test.
    """
    environment = {**os.environ, "DATABASE_URL": database_url, "PYTHONWARNINGS": "default"}
    environment.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    log = tmp_path / "qcluster.log"
    started: list[subprocess.Popen[bytes]] = []

    def start() -> Path:
        with log.open("wb") as output:
            started.append(
                subprocess.Popen(
                    [sys.executable, "manage.py", "qcluster"],
                    cwd=ROOT,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        return log

    yield start
    for process in started:
        # Only the main process gets the signal, because it stops the other processes itself.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(what: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, log.read_text()
        threading.Event().wait(0.05)


def state_is(run: services.RunInfo, state: str) -> Callable[[], bool]:
    return lambda: Run.objects.get(pk=run.id).state == state


def test_run_with_two_interrupts_completes_through_qcluster(qcluster: Callable[[], Path]) -> None:
    log = qcluster()
    run = services.start("interview", {"log": []})
    for answer in ("one", "two"):
        wait_for(state_is(run, "interrupted"), log)
        services.decide(Interrupt.objects.get(status="pending").pk, "respond", answer)
    wait_for(state_is(run, "succeeded"), log)
    wait_for(lambda: not OrmQ.objects.exists(), log)


@pytest.mark.promise("P8")
def test_scheduled_sweep_executes_run_whose_message_was_lost(qcluster: Callable[[], Path]) -> None:
    run = services.start("steps", {"log": []})
    OrmQ.objects.all().delete()
    Run.objects.filter(pk=run.id).update(last_message_at=Now() - timedelta(minutes=5))

    # The cluster does this twice a minute.
    sweeps = Schedule.objects.filter(name__startswith=schedules.NAME)
    assert {schedule.func for schedule in sweeps} == {dispatcher.SWEEP}
    sweeps.update(next_run=timezone.now() - timedelta(seconds=1))
    scheduler()
    assert OrmQ.objects.count() == sweeps.count()
    wait_for(state_is(run, "succeeded"), qcluster())
