"""Tasks of a project, in the same queue as runs or in another one."""

from __future__ import annotations

import fcntl
from pathlib import Path


def hold(gate: str, mark: str) -> None:
    Path(mark).touch()
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def note(mark: str) -> None:
    Path(mark).touch()
