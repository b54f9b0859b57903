"""Supervisor of a queue's worker processes, which restarts them if they don't work.

A queue may be blocked although all of its processes are alive, for example if one of them is
frozen. While there is work, the supervisor therefore relies only on the reports of the processes
(``supervisor_pipe``). The supervisor also runs the sweep, more often than the queue's schedule can.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from django.conf import settings
from django.core import checks
from django.db import close_old_connections, connections

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.db.connections import keep_connections
from hitl_django.task_queue import dispatcher, worker_program
from hitl_django.task_queue.due_runs import find_due
from hitl_django.task_queue.supervisor_pipe import StatusReport, SupervisorPipe

from .child_process import Child, ForkedChild, Program, Stopped, StopSignals, can_fork
from .health_file import HealthFile
from .sweeper import is_any_due, sweep

logger = logging.getLogger("hitl_django")

#: Seconds after which queued work without a worker, or an unprocessed result, is a fault.
FAULT_SECONDS = 10.0
#: Seconds in which the processes start.
START_SECONDS = 10.0
#: Seconds in which blocked processes may stop, which they usually can't.
BLOCKED_STOP_SECONDS = 5.0
#: Seconds between two checks.
TICK = 1.0
#: Seconds to collect reports. Busy workers send several reports for each task, and would otherwise
#: wake this process for each report.
REPORT_SECONDS = 0.1
#: The minimum seconds between two starts. The minimum doubles up to LONGEST while starts fail.
SHORTEST, LONGEST = 1.0, 30.0


class WorkerWatch:
    """The status of the worker processes according to their reports.

    From this status, ``find_fault`` detects that queued runs or the results of tasks are not
    processed.
    """

    def __init__(self) -> None:
        self.busy: dict[int, float] = {}
        self.expected: tuple[float, Sequence[UUID]] | None = None
        self.unsettled: float | None = None

    def record(self, report: StatusReport, now: float) -> None:
        """Store the report of a worker process, received at the time ``now``."""
        if report.word == "settled":
            self.unsettled = None
            return
        self.expected = None
        if report.word == "busy":
            self.busy[report.pid] = now + report.seconds if report.seconds else float("inf")
            return
        self.busy.pop(report.pid, None)
        self.unsettled = now if self.unsettled is None else self.unsettled

    def expect(self, runs: Sequence[UUID], now: float) -> None:
        """Expect that a worker soon reports work, because ``runs`` were just enqueued."""
        if runs and self.expected is None:
            self.expected = now, runs

    def forget_ended(self) -> bool:
        """Remove ended processes from the busy processes, and return whether any were removed."""
        count = len(self.busy)
        self.busy = {pid: until for pid, until in self.busy.items() if is_running(pid)}
        return len(self.busy) < count

    def reset(self) -> None:
        """Stop expecting reports, because workers send none while the database is unavailable."""
        self.expected = self.unsettled = None

    def find_fault(self, now: float) -> str | None:
        """Return the reason for a restart of the processes, or None if there is no fault."""
        is_owed = self.unsettled is not None and now - self.unsettled >= FAULT_SECONDS
        if is_owed and not _is_broker_down():
            return "tasks finish, but their results are not processed"
        if (
            self.expected is None
            or now - self.expected[0] < FAULT_SECONDS
            or self._has_busy_worker(now)
        ):
            return None
        expected, self.expected = self.expected, None
        # If several hosts share the queue, a worker of another host may have claimed the runs.
        if is_any_due(expected[1]) and not _is_broker_down():
            return "a run is queued, but no worker picks it up"
        return None

    def _has_busy_worker(self, now: float) -> bool:
        return any(until > now and is_running(pid) for pid, until in self.busy.items())


class Supervisor:
    """A supervisor that keeps the processes of a queue running until a signal stops it.

    ``command`` and ``function`` are those of the Dispatcher.
    """

    def __init__(
        self,
        command: Sequence[str],
        grace: float,
        say: Callable[[str], None],
        health: HealthFile,
        function: Callable[[], object] | None = None,
    ) -> None:
        self.command, self.grace, self.say, self.health = command, grace, say, health
        self._function, self._is_first = function, True
        self.listener = StopSignals()
        self._swept = -float("inf")

    def run(self) -> None:
        """Run until a signal stops this process, and then stop the worker processes."""
        delay = SHORTEST
        try:
            with self.listener.installed():
                while True:
                    began = time.monotonic()
                    logger.error("worker processes: %s; restarting", self._run_once())
                    if time.monotonic() - began > LONGEST:
                        delay = SHORTEST
                    self.listener.sleep(delay)
                    delay = min(2 * delay, LONGEST)
        except Stopped as stopped:
            self.say(f"Stopped by {stopped}.")
        finally:
            self.health.remove()
            connections.close_all()

    def _run_once(self) -> str:
        pipe, child, grace = SupervisorPipe(), None, self.grace
        try:
            # Otherwise, a started process could be missing in the list.
            with self.listener.deferred():
                child = self._start(pipe)
            self.say(f"Started {' '.join(self.command)}, process {child.pid}.")
            reason = self._watch(child, pipe)
            grace = min(grace, BLOCKED_STOP_SECONDS)
            return reason
        finally:
            with self.listener.deferred():
                self.health.write(is_ready=False)
                if child is not None:
                    self._stop(child, grace)
                pipe.close()

    def _start(self, pipe: SupervisorPipe) -> Child | ForkedChild:
        """Start the worker processes, the first time as forks if possible.

        Later forks would inherit the state of the sweeps, such as connections to caches and
        brokers, and a fault of the fork itself would repeat.
        """
        is_first, self._is_first = self._is_first, False
        connections.close_all()  # A fork must not use them.
        # Libraries have already read the environment variables of this process.
        needs_variables = bool(dispatcher.get_dispatcher().environment())
        if self._function is None or needs_variables or not (is_first and can_fork()):
            return Child(self._program(pipe))
        return ForkedChild(partial(_run_workers, self._function, pipe))

    def _watch(self, child: Child | ForkedChild, pipe: SupervisorPipe) -> str:
        watch, is_ready, is_first = WorkerWatch(), False, True
        self._swept = -float("inf")  # The next check then queries the database immediately.
        while (code := child.exit_code()) is None:
            select.select([pipe.reading], [], [], TICK)
            self.listener.sleep(REPORT_SECONDS)
            now = time.monotonic()
            for report in pipe.read_reports():
                watch.record(report, now)
            if watch.forget_ended():
                self._swept = -float("inf")  # The runs of the ended processes are queued again.
            try:
                if now - self._swept >= hitl.SWEEP_SECONDS / 3:
                    self._swept = now
                    close_old_connections()
                    runs = [*sweep(after_restart=is_first), *_find_due()]
                    watch.expect(runs, now + START_SECONDS if is_first else now)
                    is_ready, is_first = True, False
                elif hitl.UNDO_SECONDS:
                    services.resume_due()
                if (fault := watch.find_fault(now)) is not None:
                    return fault
            except Exception:
                # Without the database no worker can work, so a restart of the workers is useless.
                logger.exception("the supervisor could not run the sweep")
                watch.reset()
                is_ready = False
                connections.close_all()
            self.health.write(is_ready=is_ready)
        return f"exited with code {code}"

    def _stop(self, child: Child | ForkedChild, grace: float) -> None:
        # Only the main process gets SIGTERM, because it ends the other processes itself. All
        # processes get the second signal. A worker then releases its run after the super-step; the
        # other processes ignore the signal.
        child.terminate()
        child.signal_all(signal.SIGURG)
        child.wait(time.monotonic() + grace)
        child.signal_all(signal.SIGKILL)  # Remaining processes would work without supervision.

    def _program(self, pipe: SupervisorPipe) -> Program:
        # The arguments of this process are those that its forks also have.
        calls_function = [worker_program.__name__, *sys.argv[1:]]
        module = ["django", *self.command] if self._function is None else calls_function
        return Program(
            "worker",
            [sys.executable, "-m", *module],
            environment={
                **dispatcher.get_dispatcher().environment(),
                **pipe.environment(),
                "DJANGO_SETTINGS_MODULE": str(settings.SETTINGS_MODULE),
                # When Python runs a module, it searches for the project in other directories.
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            },
            kept=[pipe.writing],
        )


def _run_workers(function: Callable[[], object], pipe: SupervisorPipe) -> None:
    # Reports to a supervisor that has ended fail only if no process can read them.
    os.close(pipe.reading)
    os.environ.update(pipe.environment())
    keep_connections()
    function()


def is_running(pid: int) -> bool:
    """Return whether the process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _find_due() -> list[UUID]:
    """Return due runs that the workers should have found without a message."""
    if not dispatcher.get_dispatcher().watches_runs():
        return []
    return [run.id for run in find_due("")]


def _is_broker_down() -> bool:
    return any(found.level >= checks.CRITICAL for found in dispatcher.get_dispatcher().probe())
