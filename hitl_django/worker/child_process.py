"""Child processes that start together, of which none outlives this one, and the stop signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from hitl_django.task_queue import parent_death

#: Seconds a process has to stop by itself after SIGTERM.
PATIENCE = 15.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Program:
    """A command to run as a child, and its name in messages.

    Without a ``log`` it writes to where this process does. It inherits the files ``kept``.
    """

    name: str
    command: Sequence[str]
    log: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    kept: Sequence[int] = ()


class Stopped(BaseException):
    """A signal has asked this process to stop.

    Not an Exception: nothing on the way out may take it for a failure of its own.
    """


class Child:
    """A running program.

    It is given a session of its own, so that Ctrl-C in a terminal reaches this process and nobody
    else: qcluster hangs when its main process and its workers get the signal at the same time.
    One that runs this app ends with this process where Linux sees to that, even after a SIGKILL.
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

    def exit_code(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self.process.poll()

    def terminate(self) -> None:
        """Ask the main process, and only that one, to stop."""
        if self.exit_code() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> None:
        """Wait for the end until the deadline; then end the whole session by force."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            self.process.wait()

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the session, even if the main one has ended."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # none is left

    def read_log_tail(self, lines: int = 15) -> str:
        """Return the end of its log."""
        text = self.program.log.read_text(errors="replace") if self.program.log else ""
        return "\n".join(text.splitlines()[-lines:])


class StopSignals:
    """Turns the signals that ask for an end into Stopped, except where one must not be raised.

    Python drops what is raised while it destroys an object or answers a call from C, a function
    of SQLite's for instance. So what was asked stays asked, and who goes on for long checks.
    """

    def __init__(self) -> None:
        self._is_deferred = False
        self._asked: str | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals as long as the block lasts."""
        before = {number: signal.signal(number, self._receive) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Put Stopped off to the end of the block.

        Ignoring the signals instead would be inherited by a process started meanwhile, which
        then could not be stopped.
        """
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self.check()

    def check(self) -> None:
        """Raise Stopped if a signal has asked for the end."""
        if self._asked is not None:
            raise Stopped(self._asked)

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal asks for the end, or one has."""
        self.check()
        time.sleep(seconds)
        self.check()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._asked = signal.Signals(number).name
        if not self._is_deferred:
            self.check()


@contextmanager
def run_programs(programs: Sequence[Program], listener: StopSignals) -> Iterator[list[Child]]:
    """Run programs as long as the block lasts; all are stopped however the block ends."""
    children: list[Child] = []
    try:
        with listener.deferred():  # one that was started but not noted would stay behind
            for program in programs:
                children.append(Child(program))
        yield children
    finally:
        with listener.deferred():
            stop_children(children)


def stop_children(children: Sequence[Child]) -> None:
    """Stop programs side by side, within PATIENCE together."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + PATIENCE
    for child in children:
        child.wait(deadline)
