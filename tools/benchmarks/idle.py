"""Program that measures the processes and the memory of idle workers.

    python -m tools.benchmarks.idle

It compares ``hitl worker`` with the cluster of django-q2 in a project without this package. Both
have the settings of the installation guide and a SQLite database. Memory that processes share is
counted once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.__main__ import keep_bytecode

from .children import ROOT

#: The settings module and the command of each row.
ROWS = {
    "hitl worker": ("tools.benchmarks.jobs.settings", ("hitl", "worker")),
    "qcluster of django-q2 alone": (
        "tools.benchmarks.idle_queue_settings",
        ("qcluster", "--skip-checks"),
    ),
}
#: Minimum number of processes of a cluster: sentinel, two workers, monitor, pusher.
CLUSTER = 5
#: Seconds without a new process after which all processes have started.
QUIET = 5.0
#: Maximum number of seconds for starting and for stopping.
PATIENCE = 60.0


class Idle(NamedTuple):
    """Number of processes, and their memory in MB."""

    processes: int
    megabytes: float


def main() -> int:
    for title, (settings, command) in ROWS.items():
        found = measure(settings, command)
        print(f"{title}: {found.processes} processes, {found.megabytes:.0f} MB")
    return 0


def measure(settings: str, command: Sequence[str]) -> Idle:
    """Start a command with a new database, and measure it when all its processes have started."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'db.sqlite3'}"
        environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": settings}
        environment = keep_bytecode(environment)
        migrate = [sys.executable, "-m", "django", "migrate", "--skip-checks", "-v0"]
        subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
        with tempfile.TemporaryFile() as log:
            return _measure_command(command, environment, log.fileno())


def _measure_command(command: Sequence[str], environment: Mapping[str, str], log: int) -> Idle:
    with subprocess.Popen(
        [sys.executable, "-m", "django", *command],
        cwd=ROOT,
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            found = _wait_for_processes(psutil.Process(process.pid))
            return Idle(len(found), sum(each.memory_full_info().pss for each in found) / 1e6)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait_for_processes(parent: psutil.Process) -> list[psutil.Process]:
    deadline = time.monotonic() + PATIENCE
    found = [parent]
    changed = time.monotonic()
    while time.monotonic() < changed + QUIET or len(found) < CLUSTER:
        if time.monotonic() > deadline:
            raise TimeoutError(f"The command started {len(found)} processes.")
        time.sleep(QUIET / 50)
        now = [parent, *parent.children(recursive=True)]
        if now != found:
            found, changed = now, time.monotonic()
    return found


if __name__ == "__main__":
    sys.exit(main())
