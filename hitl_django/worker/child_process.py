"""Child processes that end with this process, and the signals that stop this process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from django.db import connections

from hitl_django.task_queue import parent_death

#: The seconds in which a process must stop after SIGTERM.
STOP_SECONDS = 15.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Program:
    """A command that runs as a child process.

    Without ``log``, the child process inherits the output of this process. ``kept`` are the file
    descriptors that the child process inherits.
    """

    name: str
    command: Sequence[str]
    log: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    kept: Sequence[int] = ()


class Stopped(BaseException):
    """Raised if a signal asks this process to stop.

    The class isn't a subclass of Exception, so that error handlers don't catch it.
    """


class Child:
    """A running child process.

    The child process has a separate session, so that Ctrl-C in a terminal reaches only this
    process. Otherwise, qcluster hangs if its main process and its workers receive the signal
    simultaneously. On Linux, a child process that runs this app ends with this process, even after
    a SIGKILL.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        with program.log.open("ab") if program.log else nullcontext() as log:
            self.process = subprocess.Popen(
                program.command,
                env={**os.environ, **parent_death.build_environment(), **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
                pass_fds=program.kept,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def exit_code(self) -> int | None:
        """Return the exit code of the process, or None while it is running."""
        return self.process.poll()

    def terminate(self) -> None:
        """Send SIGTERM to the child process only, not to its own child processes."""
        if self.exit_code() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> None:
        """Wait for the process to end. After the deadline, kill all processes of its session."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            self.process.wait()

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the child's session, even if the child has ended."""
        _signal_session(self.pid, number)

    def read_log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the log file."""
        text = self.program.log.read_text(errors="replace") if self.program.log else ""
        return "\n".join(text.splitlines()[-lines:])


class ForkedChild:
    """A running fork of this process, which calls a function and then ends.

    The fork shares the memory of this process, until one of the two changes it. Like a Child, the
    fork has a separate session, and on Linux it ends with this process. The fork's handlers of
    STOP_SIGNALS are the default handlers.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        # The collector would otherwise write to the objects of this process, and thereby copy
        # their memory.
        gc.collect()
        gc.freeze()
        target = partial(_run_fork, function, os.getpid())
        self._process = multiprocessing.get_context("fork").Process(target=target)
        # A signal would otherwise be lost in the fork before its handlers are reset.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code of the process, or None while it is running."""
        return self._process.exitcode

    def terminate(self) -> None:
        """Send SIGTERM to the child process only, not to its own child processes."""
        self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Wait for the process to end. After the deadline, kill all processes of its session."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        if self.exit_code() is None:
            self.signal_all(signal.SIGKILL)
            self._process.kill()  # The process may not have its session yet.
            self._process.join()

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the child's session, even if the child has ended."""
        _signal_session(self.pid, number)


def can_fork() -> bool:
    """Return whether a fork of this process can execute Python code.

    The process must have only one OS thread and no open database connection. A fork would wait for
    the locks of other OS threads, and would use open database connections together with this
    process. On macOS, the result is False, because libraries of the system may crash in a fork.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    return all(each.connection is None for each in connections.all(initialized_only=True))


def _run_fork(function: Callable[[], object], parent: int) -> None:
    os.setsid()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    parent_death.bind(parent)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    function()


def _signal_session(session: int, number: signal.Signals) -> None:
    try:
        os.killpg(session, number)
    except ProcessLookupError:
        pass  # All processes have ended.


class StopSignals:
    """A listener for the signals that stop this process.

    The listener raises Stopped, except in deferred blocks. Python ignores exceptions in destructors
    and in calls from C, such as functions of SQLite. Long-running code must therefore also call
    ``check``.
    """

    def __init__(self) -> None:
        self._is_deferred = False
        self._asked: str | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Install the signal handlers inside the block."""
        before = {number: signal.signal(number, self._receive) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Delay Stopped until the end of the block.

        The signals are handled, not ignored: a process started in the block would inherit ignored
        signals and could not be stopped.
        """
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self.check()

    def check(self) -> None:
        """Raise Stopped if a signal has asked this process to stop."""
        if self._asked is not None:
            raise Stopped(self._asked)

    def sleep(self, seconds: float) -> None:
        """Sleep. Raise Stopped as soon as a signal asks this process to stop."""
        self.check()
        time.sleep(seconds)
        self.check()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._asked = signal.Signals(number).name
        if not self._is_deferred:
            self.check()


@contextmanager
def run_programs(programs: Sequence[Program], listener: StopSignals) -> Iterator[list[Child]]:
    """Run programs inside the block, and stop all of them at its end."""
    children: list[Child] = []
    try:
        with listener.deferred():  # Otherwise, a started process could be missing in the list.
            for program in programs:
                children.append(Child(program))
        yield children
    finally:
        with listener.deferred():
            stop_children(children)


def stop_children(children: Sequence[Child]) -> None:
    """Terminate the child processes. Kill those that still run after STOP_SECONDS seconds."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        child.wait(deadline)
