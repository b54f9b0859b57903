"""Pipe on which worker processes report their status to their supervisor.

Each report is one short write, which is atomic. Processes that no supervisor has started write no
reports. If the supervisor doesn't read, reports are dropped. If the supervisor has ended, the first
process that notices this kills all worker processes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

#: The environment variable with the pipe's file descriptor for writing.
VARIABLE = "HITL_PULSE"

WorkerStatus = Literal["busy", "idle", "settled"]
STATUSES: Mapping[str, WorkerStatus] = {"busy": "busy", "idle": "idle", "settled": "settled"}


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The status that a worker process reports.

    ``seconds`` is the time limit of a busy process, or 0 without a limit.
    """

    word: WorkerStatus
    pid: int
    seconds: float = 0.0


def is_supervised() -> bool:
    """Return whether a supervisor has started this process or its parent."""
    return VARIABLE in os.environ


def report_status(word: WorkerStatus, seconds: float = 0.0) -> None:
    """Report a status to the supervisor, if there is one.

    ``seconds`` is the time limit of the task.
    """
    pipe = os.environ.get(VARIABLE)
    if not pipe:
        return
    try:
        os.write(int(pipe), f"{word} {os.getpid()} {seconds}\n".encode())
    except BrokenPipeError:
        # The supervisor created this process group and has ended.
        os.killpg(os.getpgrp(), signal.SIGKILL)
    except (OSError, ValueError):
        pass  # The supervisor doesn't read fast enough, so the report is dropped.


class SupervisorPipe:
    """The supervisor's end of the pipe on which worker processes report their status."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)
        self._rest = b""

    def environment(self) -> dict[str, str]:
        """Return environment variables for the worker processes."""
        return {VARIABLE: str(self.writing)}

    def read_reports(self) -> Iterator[StatusReport]:
        """Yield the reports written since the last call."""
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                if (pulse := _parse(line)) is not None:
                    yield pulse

    def close(self) -> None:
        """Close both ends of the pipe."""
        os.close(self.reading)
        os.close(self.writing)

    def _read(self) -> bytes:
        try:
            return os.read(self.reading, 65536)
        except BlockingIOError:
            return b""


def _parse(line: bytes) -> StatusReport | None:
    try:
        word, pid, seconds = line.decode().split(" ")
        return StatusReport(STATUSES[word], int(pid), float(seconds))
    except (ValueError, KeyError):
        return None  # Other code has written to the pipe.
