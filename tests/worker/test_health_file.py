"""The health file while workers run, while they don't run, and afterwards."""

from __future__ import annotations

import io
import signal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from hitl_django import testing
from hitl_django.task_queue import supervisor_pipe
from hitl_django.worker import child_process, supervisor, sweep_loop
from hitl_django.worker.health_file import HealthFile
from tests.clock import module_time


class FailingSweep:
    """Sweep that fails at every second call, as during a database outage."""

    calls = 0

    def __call__(self, *, after_restart: bool = False) -> list[Any]:
        self.calls += 1
        if self.calls % 2 == 0:
            raise OperationalError("the database is away")
        return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "health"


@pytest.mark.django_db(transaction=True)
def test_supervisor_health_file_says_ready_only_while_sweep_succeeds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    class Child:
        """Child process that ends after three checks of the file."""

        def exit_code(self) -> int | None:
            if path.exists():
                found.append(path.read_text().strip())
            return 0 if len(found) == 3 else None

    monkeypatch.setattr(supervisor, "TICK", 0.01)
    monkeypatch.setattr(supervisor.hitl, "SWEEP_SECONDS", 0)
    monkeypatch.setattr(supervisor, "sweep", FailingSweep())
    pipe = supervisor_pipe.SupervisorPipe()
    watching: Any = Child()
    try:
        supervisor.Supervisor([], 1.0, print, HealthFile(path))._watch(watching, pipe)
    finally:
        pipe.close()
    assert found == ["ready", "waiting", "ready"]


def test_supervisor_removes_its_health_file_at_its_end(
    transactional_db: None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def pause(seconds: float) -> None:
        if path.exists():
            found.append(path.read_text().strip())
        if found == ["waiting"]:  # the child processes have ended and must be restarted
            signal.raise_signal(signal.SIGTERM)

    class Child:
        """Child process that ends immediately after its start."""

        def __init__(self, program: child_process.Program) -> None:
            self.process = self

        pid = 0

        def exit_code(self) -> int:
            return 1

    monkeypatch.setattr(supervisor, "Child", Child)
    monkeypatch.setattr(supervisor.Supervisor, "_stop", lambda self, child, grace: None)
    monkeypatch.setattr(child_process, "time", module_time(sleep=pause))
    supervisor.Supervisor([], 1.0, lambda text: None, HealthFile(path)).run()
    assert found == ["waiting"]
    assert list(path.parent.iterdir()) == []


def test_worker_command_health_file_says_ready_only_while_sweep_succeeds(
    transactional_db: None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def pause(seconds: float) -> None:
        found.append(path.read_text().strip())
        if len(found) == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(child_process, "time", module_time(sleep=pause))
    monkeypatch.setattr(sweep_loop, "sweep", FailingSweep())
    with testing.inline():
        call_command("hitl", "worker", "--health-file", str(path), stdout=io.StringIO())
    assert found == ["ready", "waiting", "ready"]
    assert list(path.parent.iterdir()) == []


def test_unwritable_health_file_is_logged_and_raises_no_error(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    HealthFile(path / "away").write(is_ready=True)
    assert "could not write the health file" in caplog.text


@pytest.mark.django_db
def test_worker_command_with_missing_health_file_directory_raises_command_error(path: Path) -> None:
    with pytest.raises(
        CommandError, match=r"Directory .*/health for the health file doesn't exist"
    ):
        call_command("hitl", "worker", "--health-file", str(path / "away"))
