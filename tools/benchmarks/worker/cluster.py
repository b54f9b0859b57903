"""Worker processes of the benchmark's own, started as the guide to deploying has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .signs import VARIABLE, Signs

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 45  # seconds to end by themselves; they take 30 at most


@contextmanager
def running(**environment: str) -> Iterator[Signs]:
    """Runs ``hitl worker`` on this process's database until the block ends; gives its signs."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        signs = Signs(folder)
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "hitl", "worker"],
            cwd=ROOT,
            env={**os.environ, **environment, VARIABLE: signs.path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield signs
        except TimeoutError:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-2000:])
            raise
        finally:
            _stop(process)
            signs.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
