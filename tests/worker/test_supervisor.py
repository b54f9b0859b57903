"""Conclusions of the supervisor from messages of workers, without processes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.core.checks import Critical, Error
from django.core.management import call_command
from django.db import OperationalError
from django.db.models.functions import Now

from hitl_django import services, testing
from hitl_django.conf import hitl
from hitl_django.contrib.django_tasks import framework
from hitl_django.models import Run, Thread
from hitl_django.task_queue import dispatcher, supervisor_pipe
from hitl_django.task_queue.supervisor_pipe import StatusReport
from hitl_django.worker import child_process, messages, supervisor, sweep_loop
from hitl_django.worker import sweeper as sweeping
from hitl_django.worker.health_file import HealthFile
from hitl_django.worker.supervisor import FAULT_SECONDS, WorkerWatch
from tests.clock import module_time

NOBODY = 2**22 + 1  # Linux doesn't allow this many processes


@pytest.fixture
def due(db: None) -> Any:
    with testing.inline():
        yield services.start("steps", {"log": []}).id


def test_worker_watch_reports_fault_once_for_run_unclaimed_for_too_long(due: Any) -> None:
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    watch.expect([due], FAULT_SECONDS / 2)  # a second signal doesn't restart the timeout
    assert watch.find_fault(FAULT_SECONDS - 0.1) is None
    assert "no worker" in str(watch.find_fault(FAULT_SECONDS))
    assert watch.find_fault(FAULT_SECONDS + 1) is None


def test_worker_watch_reports_no_fault_while_a_worker_is_busy(due: Any) -> None:
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    watch.record(StatusReport("busy", os.getpid(), 60), 1.0)
    assert watch.find_fault(FAULT_SECONDS) is None
    # All workers are busy, so the queued runs wait normally.
    watch.expect([due], 20.0)
    assert watch.find_fault(20.0 + FAULT_SECONDS) is None
    # A worker that has been busy for longer than a task may take doesn't count as busy.
    assert watch.find_fault(61.0) is not None


def test_worker_watch_ignores_busy_report_of_process_that_no_longer_exists(due: Any) -> None:
    watch = WorkerWatch()
    watch.record(StatusReport("busy", NOBODY), 0.0)
    watch.expect([due], 1.0)
    assert watch.find_fault(1.0 + FAULT_SECONDS) is not None


def test_worker_watch_notices_once_that_a_busy_process_has_ended() -> None:
    watch = WorkerWatch()
    watch.record(StatusReport("busy", os.getpid(), 60), 0.0)
    watch.record(StatusReport("busy", NOBODY, 60), 0.0)
    watch.expect([uuid4()], 0.0)
    watch.find_fault(FAULT_SECONDS)
    assert watch.forget_ended()
    assert not watch.forget_ended()


def test_supervisor_sweeps_immediately_when_a_busy_process_has_ended(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, swept = supervisor_pipe.SupervisorPipe(), []

    class Child:
        """Child process that ends after the second sweep. A busy process ends after the first."""

        def exit_code(self) -> int | None:
            return 0 if len(swept) > 1 else None

    def sweep(*, after_restart: bool) -> list[Any]:
        swept.append(after_restart)
        os.write(pipe.writing, f"busy {NOBODY} 60\n".encode())
        return []

    monkeypatch.setattr(supervisor, "TICK", 0.01)
    monkeypatch.setattr(supervisor, "sweep", sweep)
    watched: Any = Child()
    try:
        supervisor.Supervisor([], 1.0, print, HealthFile(None))._watch(watched, pipe)
    finally:
        pipe.close()
    assert swept == [True, False]


def test_supervisor_notices_unclaimed_run_before_the_sweep_considers_it_overdue(
    transactional_db: None, due: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "sweep", lambda **how: [])
    monkeypatch.setattr(supervisor, "TICK", 0.01)
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "FAULT_SECONDS", 0.0)
    monkeypatch.setattr(type(dispatcher.get_dispatcher()), "watches_runs", lambda self: True)
    watched: Any = Mock(exit_code=Mock(side_effect=[None, 0]))
    pipe = supervisor_pipe.SupervisorPipe()
    try:
        reason = supervisor.Supervisor([], 1.0, print, HealthFile(None))._watch(watched, pipe)
    finally:
        pipe.close()
    assert reason == "a run is queued, but no worker picks it up"


@pytest.mark.parametrize("variables", [{}, {"Q_CLUSTER_NAME": "runs"}])
def test_supervisor_forks_only_first_processes_that_need_no_other_environment_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    queue = type(dispatcher.get_dispatcher())
    monkeypatch.setattr(queue, "environment", lambda self: variables)
    monkeypatch.setattr(supervisor, "can_fork", lambda: True)
    monkeypatch.setattr(supervisor, "ForkedChild", lambda function: "fork")
    monkeypatch.setattr(supervisor, "Child", lambda program: program.command[1:])
    monkeypatch.setattr(sys, "argv", ["manage.py", "hitl", "worker"])
    supervised = supervisor.Supervisor(["qcluster"], 1.0, print, HealthFile(None), print)
    program = ["-m", "hitl_django.task_queue.worker_program", "hitl", "worker"]
    pipe = supervisor_pipe.SupervisorPipe()
    started = [supervised._start(pipe), supervised._start(pipe)]
    pipe.close()
    assert started == ["fork" if not variables else program, program]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Any:
    pipe = supervisor_pipe.SupervisorPipe()
    monkeypatch.setenv(supervisor_pipe.VARIABLE, str(pipe.writing))
    yield pipe
    pipe.close()


def hear(watch: WorkerWatch, pipe: supervisor_pipe.SupervisorPipe, now: float) -> None:
    for report in pipe.read_reports():
        watch.record(report, now)


def test_worker_watch_reports_no_fault_during_task_without_queue_timeout(
    due: Any, reported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = WorkerWatch()

    def advance(run_id: str) -> None:
        hear(watch, reported, 0.0)
        watch.expect([due], 35.0)
        assert watch.find_fault(61.0) is None
        assert watch.find_fault(3600.0) is None

    monkeypatch.setattr(messages, "import_string", lambda path: advance)
    messages.perform(dispatcher.ADVANCE, "an id")
    hear(watch, reported, 3600.0)
    watch.expect([due], 3600.0)
    assert watch.find_fault(3600.0 + FAULT_SECONDS) is not None


def test_worker_watch_considers_process_busy_while_any_of_its_os_threads_is_busy(
    due: Any, reported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = threading.Event(), threading.Event()

    def advance(run_id: str) -> None:
        if run_id == "long":
            begun.set()
            assert release.wait(60)

    monkeypatch.setattr(messages, "import_string", lambda path: advance)
    thread = threading.Thread(target=messages.perform, args=(dispatcher.ADVANCE, "long"))
    thread.start()
    assert begun.wait(60)
    messages.perform(dispatcher.ADVANCE, "short")
    watch = WorkerWatch()
    hear(watch, reported, 0.0)
    watch.expect([due], 1.0)
    assert watch.find_fault(1.0 + FAULT_SECONDS) is None
    release.set()
    thread.join(60)
    hear(watch, reported, 20.0)
    watch.expect([due], 20.0)
    assert watch.find_fault(20.0 + FAULT_SECONDS) is not None


def test_worker_watch_considers_process_idle_after_its_task_failed(
    due: Any, reported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(run_id: str) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(messages, "import_string", lambda path: advance)
    watch = WorkerWatch()
    with pytest.raises(SystemExit):
        messages.perform(dispatcher.ADVANCE, "an id")
    hear(watch, reported, 0.0)
    watch.expect([due], 1.0)
    assert watch.find_fault(1.0 + FAULT_SECONDS) is not None


def test_worker_watch_considers_process_busy_during_project_task_of_django_tasks(
    due: Any, reported: Any
) -> None:
    watch = WorkerWatch()
    framework.task_started.send(sender=None, task_result=Mock())
    hear(watch, reported, 0.0)
    watch.expect([due], 1.0)
    assert watch.find_fault(3600.0) is None
    framework.task_finished.send(sender=None, task_result=Mock())
    hear(watch, reported, 3600.0)
    watch.expect([due], 3600.0)
    assert watch.find_fault(3600.0 + FAULT_SECONDS) is not None


@pytest.mark.parametrize("state", ["succeeded", "interrupted", "running"])
def test_worker_watch_reports_no_fault_for_run_claimed_by_another_host(
    due: Any, state: str
) -> None:
    Run.objects.update(state=state)
    Thread.objects.update(lease_until=Now() + timedelta(minutes=1))
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    assert watch.find_fault(FAULT_SECONDS) is None


def test_worker_watch_reports_no_fault_while_broker_is_unavailable(
    due: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher.Dispatcher, "probe", lambda self: [Critical("down")])
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    assert watch.find_fault(FAULT_SECONDS) is None


def test_worker_watch_reports_fault_for_reachable_but_misconfigured_queue(
    due: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher.Dispatcher, "probe", lambda self: [Error("no schedule")])
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    assert "no worker" in str(watch.find_fault(FAULT_SECONDS))


def test_worker_watch_reports_fault_for_task_results_unread_for_too_long(due: Any) -> None:
    watch = WorkerWatch()
    watch.record(StatusReport("idle", 1), 0.0)
    watch.record(StatusReport("idle", 2), 5.0)
    assert "results" in str(watch.find_fault(FAULT_SECONDS))
    watch.record(StatusReport("settled", 3), FAULT_SECONDS)
    assert watch.find_fault(2 * FAULT_SECONDS) is None


def test_worker_watch_reports_no_fault_after_reset(due: Any) -> None:
    watch = WorkerWatch()
    watch.expect([due], 0.0)
    watch.record(StatusReport("idle", 1), 1.0)
    watch.expect([due], 2.0)
    watch.reset()
    assert watch.find_fault(1000.0) is None


def test_worker_watch_without_due_runs_reports_no_fault() -> None:
    watch = WorkerWatch()
    watch.expect([], 0.0)
    assert watch.find_fault(1000.0) is None


def test_supervisor_pipe_returns_status_reports_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = supervisor_pipe.SupervisorPipe()
    monkeypatch.setenv(supervisor_pipe.VARIABLE, pipe.environment()[supervisor_pipe.VARIABLE])
    assert list(pipe.read_reports()) == []
    supervisor_pipe.report_status("busy", 60)
    supervisor_pipe.report_status("idle")
    os.write(pipe.writing, b"nonsense\nbusy x y\nsettl")
    me = os.getpid()
    assert list(pipe.read_reports()) == [StatusReport("busy", me, 60.0), StatusReport("idle", me)]
    os.write(pipe.writing, f"ed {me} 0\n".encode())
    assert list(pipe.read_reports()) == [StatusReport("settled", me)]
    pipe.close()
    supervisor_pipe.report_status("idle")  # no reader is left
    monkeypatch.setenv(supervisor_pipe.VARIABLE, "")
    supervisor_pipe.report_status("idle")


def test_report_status_does_not_block_when_the_supervisor_reads_no_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = supervisor_pipe.SupervisorPipe()
    monkeypatch.setenv(supervisor_pipe.VARIABLE, str(pipe.writing))
    for _ in range(10_000):
        supervisor_pipe.report_status("idle")
    assert all(one.word == "idle" for one in pipe.read_reports())
    pipe.close()


def test_worker_command_with_external_queue_sweeps_until_sigterm(
    transactional_db: None, due: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.objects.update(last_message_at=Now() - timedelta(hours=1))
    rounds = iter([None, None, signal.SIGTERM])

    def pause(seconds: float) -> None:
        assert seconds == hitl.SWEEP_SECONDS / 3
        if number := next(rounds):
            signal.raise_signal(number)

    failing = iter([OperationalError("the database is away")])

    def sweep() -> Any:
        for error in failing:
            raise error
        return sweeping.sweep()

    monkeypatch.setattr(child_process, "time", module_time(sleep=pause))
    monkeypatch.setattr(sweep_loop, "sweep", sweep)
    out = io.StringIO()
    call_command("hitl", "worker", stdout=out)
    assert "has its own workers" in out.getvalue()
    assert "Stopped by SIGTERM." in out.getvalue()
    assert next(rounds, "none is left") == "none is left"
    assert Run.objects.get().state == "queued"
    assert not Run.objects.filter(last_message_at__lt=Now() - timedelta(minutes=1)).exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_sigterm_received_in_finalizer_stops_the_supervisor(
    transactional_db: None, due: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connection:
        """Connection that a client of an unavailable broker leaves behind."""

        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    left_behind = [Connection()]

    def sweep(**how: Any) -> Any:
        left_behind.clear()
        return []

    monkeypatch.setattr(supervisor, "sweep", sweep)
    out = io.StringIO()
    supervisor.Supervisor(["check"], 30.0, out.write, HealthFile(None)).run()
    assert "Stopped by SIGTERM." in out.getvalue()


def test_sigterm_during_start_of_child_process_leaves_no_running_child(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Child(child_process.Child):
        def __init__(self, program: child_process.Program) -> None:
            super().__init__(program)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(supervisor, "Child", Child)
    supervisor.Supervisor(["check"], 30.0, lambda text: None, HealthFile(None)).run()
    assert [child.exit_code() is not None for child in started] == [True]


@pytest.mark.parametrize("is_safe", [True, False])
def test_supervisor_forks_only_its_first_worker_processes_and_only_if_safe(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, is_safe: bool
) -> None:
    started: list[str] = []

    class Child:
        """Child process that ends immediately after its start."""

        pid = 0

        def __init__(self, work: object) -> None:
            started.append("program" if isinstance(work, child_process.Program) else "fork")

        def exit_code(self) -> int:
            return 1

    def pause(seconds: float) -> None:
        if len(started) == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(supervisor, "Child", Child)
    monkeypatch.setattr(supervisor, "ForkedChild", Child)
    monkeypatch.setattr(supervisor, "can_fork", lambda: is_safe)
    monkeypatch.setattr(supervisor.Supervisor, "_stop", lambda self, child, grace: None)
    monkeypatch.setattr(child_process, "time", module_time(sleep=pause))
    how: Any = [["check"], 1.0, lambda text: None, HealthFile(None), lambda: None]
    supervisor.Supervisor(*how).run()
    assert started == ["fork" if is_safe else "program", "program"]


def test_sweep_returns_ids_of_the_requeued_runs(due: Any) -> None:
    from hitl_django.worker.sweeper import is_any_due, sweep

    assert sweep() == []
    Run.objects.update(last_message_at=Now() - timedelta(hours=1))
    assert sweep() == [due]
    assert is_any_due([due])
    assert not is_any_due([uuid4()])
