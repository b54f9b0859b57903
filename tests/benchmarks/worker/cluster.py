"""A qcluster of the benchmark's own."""

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
PATIENCE = 30


@contextmanager
def running(**environment: str) -> Iterator[Signs]:
    """Runs qcluster on this process's database as long as the block lasts; gives its signs."""
    signs = Signs()
    told = {**os.environ, **environment, VARIABLE: str(signs.writing)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "qcluster"],
            cwd=ROOT,
            env=told,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[signs.writing],
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
    process.send_signal(signal.SIGTERM)  # to the main process alone, which ends the others
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # none is left
    process.wait()
