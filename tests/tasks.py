"""Tasks of a product's own, which share a queue with runs, or don't."""

from __future__ import annotations

import fcntl
from pathlib import Path


def hold(gate: str, mark: str) -> None:
    Path(mark).touch()
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def note(mark: str) -> None:
    Path(mark).touch()
