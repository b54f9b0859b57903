"""Worker processes of the benchmark, started as the guides describe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

from .signs import VARIABLE, Signs

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 45  # Maximum number of seconds for stopping. The processes take up to 30 seconds.
#: Arguments of the interpreter that start the worker and its supervisor.
WORKER = ("-m", "django", "hitl", "worker")


class Workers:
    """Worker processes that use this process's database, and the signals that they send."""

    def __init__(
        self, programs: Sequence[Sequence[str]], environment: dict[str, str], signs: Signs, log: IO
    ) -> None:
        self.signs = signs
        self._programs, self._log = programs, log
        self._environment = {**os.environ, **environment, VARIABLE: signs.path}
        self._running: list[psutil.Popen] = []

    def start(self) -> None:
        self._running = [
            psutil.Popen(
                [sys.executable, *program],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
            for program in self._programs
        ]

    def kill(self) -> None:
        """Kill all processes and their tasks simultaneously, like a failure of the machine."""
        found = self.list_processes()
        for each in found:
            each.kill()
        psutil.wait_procs(found)

    def list_processes(self) -> list[psutil.Process]:
        return [each for one in self._running for each in (one, *one.children(recursive=True))]

    def stop(self) -> None:
        for each in self._running:
            each.send_signal(signal.SIGTERM)
        for each in self._running:
            try:
                each.wait(PATIENCE)
            except psutil.TimeoutExpired:
                each.kill()
                each.wait()


@contextmanager
def running(*programs: Sequence[str], **environment: str) -> Iterator[Workers]:
    """Run ``hitl worker`` or other programs during the block.

    The programs use the database of the current process.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        signs = Signs(folder)
        workers = Workers(programs or [WORKER], environment, signs, log)
        workers.start()
        try:
            yield workers
        except TimeoutError:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-2000:])
            raise
        finally:
            workers.stop()
            signs.close()
