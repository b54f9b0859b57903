"""Workers that queue runs after the undo period, between two sweeps."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import services, testing
from hitl_django.models import Run
from hitl_django.task_queue import supervisor_pipe
from hitl_django.worker import child_process, supervisor, sweep_loop
from hitl_django.worker.health_file import HealthFile
from tests.clock import module_time


@pytest.fixture(autouse=True)
def _answered(transactional_db: None) -> Iterator[None]:
    with testing.inline(), override_settings(HITL={**settings.HITL, "UNDO_SECONDS": 5}):
        services.start("steps", {"log": []})
        Run.objects.update(state="interrupted", resumes_at=Now() - timedelta(seconds=1))
        yield


def test_worker_command_with_undo_period_checks_for_due_runs_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[float] = []

    def pause(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) > 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(child_process, "time", module_time(sleep=pause))
    monkeypatch.setattr(sweep_loop, "sweep", lambda: None)
    call_command("hitl", "worker", stdout=io.StringIO())
    assert rounds == [sweep_loop.TICK] * 4
    assert Run.objects.get().state == "queued"


def test_supervisor_queues_run_after_undo_period_between_sweeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Child:
        """Child process that runs until the run is queued."""

        def exit_code(self) -> int | None:
            return 0 if Run.objects.get().state == "queued" else None

    pipe = supervisor_pipe.SupervisorPipe()
    monkeypatch.setattr(supervisor, "TICK", 0.01)
    monkeypatch.setattr(supervisor, "sweep", lambda **how: [])
    watching: Any = Child()
    try:
        assert "exited with code 0" in supervisor.Supervisor(
            [], 1.0, print, HealthFile(None)
        )._watch(watching, pipe)
    finally:
        pipe.close()
