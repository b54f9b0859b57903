"""Worker processes with the test database, which tests can observe, signal and kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hitl_django import services
from hitl_django.models import Run

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120

#: Short timings, because the default timings take a minute.
IMPATIENT = {"LEASE_SECONDS": 4, "HEARTBEAT_SECONDS": 0.5, "SWEEP_SECONDS": 2}
#: If no worker dies, no lease may expire, even on a slow machine.
PATIENT = {"LEASE_SECONDS": 300, "HEARTBEAT_SECONDS": 0.5, "SWEEP_SECONDS": 2}

SAYS = {
    "worker": r"ready for work at (\d+)",
    "pusher": r"pushing tasks at (\d+)",
    "monitor": r"monitoring at (\d+)",
}


class Cluster:
    """A command that executes messages, in a separate session."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        #: Sessions started here, whose processes may outlive their parent.
        self.sessions = {self.process.pid}
        self.is_supervised = "qcluster" not in command

    def main(self) -> int:
        """Return the process id of qcluster's main process."""
        if not self.is_supervised:
            return self.process.pid
        # If a process has just ended, the supervisor may not have started the next one yet.
        self.wait_for(lambda: bool(self._find_supervised()))
        (pid,) = self._find_supervised()
        self.sessions.add(pid)
        return pid

    def _find_supervised(self) -> set[int]:
        """Return the supervised process, without the process that runs the checks at the start."""
        named = re.findall(r"Started .*, process (\d+)\.", self.log.read_text())
        children = psutil.Process(self.process.pid).children()
        return {each.pid for each in children if str(each.pid) in named}

    def last(self, kind: str) -> int:
        """Return the id of the process of this kind that was started last."""
        if kind == "main":
            return self.main()
        if kind == "sentinel":
            children = psutil.Process(self.main()).children()
            # The sentinel of forked processes is the main process.
            return children[0].pid if len(children) == 1 else self.main()
        return int(re.findall(SAYS[kind], self.log.read_text())[-1])

    def ready(self, workers: int = 2) -> Cluster:
        """Wait until the workers, a pusher and a monitor have been started."""

        def started() -> bool:
            text = self.log.read_text()
            least = {"worker": workers, "pusher": 1, "monitor": 1}
            return all(len(re.findall(SAYS[kind], text)) >= least[kind] for kind in SAYS)

        self.wait_for(started)
        return self

    def wait_for(self, what: Callable[[], bool]) -> None:
        # Count polls instead of seconds, because a slow machine polls less often.
        for _ in range(20 * PATIENCE):
            if what():
                return
            threading.Event().wait(0.05)
        raise AssertionError(self.log.read_text())

    def overtaken(self) -> int:
        """Return the number of workers that noticed that another worker had their run.

        This happens if the machine freezes for longer than a lease.
        """
        return self.log.read_text().count("was taken over")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.log.read_text()) from None

    def clear_up(self) -> None:
        try:
            self.sessions |= {each.pid for each in psutil.Process(self.process.pid).children()}
        except psutil.NoSuchProcess:
            pass
        for session in self.sessions:
            try:
                os.killpg(session, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def cluster(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Yield a function that starts a command.

    All of its processes end with the test.
    """
    started: list[Cluster] = []

    def start(*command: str, q: dict[str, Any] | None = None, **environment: str) -> Cluster:
        log = tmp_path / f"cluster-{len(started)}.log"
        known = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        known |= {"DATABASE_URL": database_url, "PYTHONWARNINGS": "default"}
        known |= {"TEST_HITL": json.dumps(IMPATIENT), "TEST_Q_CLUSTER": json.dumps(q or {})}
        started.append(Cluster(list(command), known | environment, log))
        return started[-1]

    yield start
    for each in started:
        each.clear_up()


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.touch()
    return path


def start_laps(book: Path, count: int, laps: int = 5, seconds: float = 0.1) -> list[Any]:
    """Start runs of the graph "laps", and return their ids."""
    return [
        services.start(
            "laps",
            {"book": str(book), "name": str(number), "laps": laps, "seconds": seconds, "done": 0},
        ).id
        for number in range(count)
    ]


def begun(book: Path) -> Counter[str]:
    return Counter(book.read_text().splitlines())


def states(runs: list[Any]) -> Counter[str]:
    return Counter(Run.objects.filter(pk__in=runs).values_list("state", flat=True))


def all_succeeded(runs: list[Any]) -> Callable[[], bool]:
    return lambda: states(runs) == {"succeeded": len(runs)}
