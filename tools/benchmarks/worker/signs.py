"""What a cluster's processes tell who measures them: one line each, with the time, down a pipe."""

from __future__ import annotations

import fcntl
import os
import select
import time
from dataclasses import dataclass

#: The environment variable that names the pipe.
VARIABLE = "HITL_BENCH_SIGNS"
PATIENCE = 120.0  # seconds without any sign; a run of a worker that died waits for 60
KEPT = 1 << 20  # bytes that wait in the pipe while nobody reads: a measurement's, all of them


@dataclass(frozen=True, slots=True)
class Sign:
    """What happened to which task, and when by the clock that all processes share."""

    word: str
    name: str
    at: float


_pipe: int | None = None


def give(word: str, name: str) -> None:
    """Tell who measures; nobody where nobody does."""
    global _pipe
    if VARIABLE not in os.environ:
        return
    if _pipe is None:
        _pipe = os.open(os.environ[VARIABLE], os.O_WRONLY)
    os.write(_pipe, f"{word} {name} {time.monotonic()}\n".encode())


class Signs:
    """The end of who measures; a named pipe, which the processes find however they are started."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "signs")
        os.mkfifo(self.path)
        # Also to write to, so that it has no end while no other process has it open.
        self._pipe = os.open(self.path, os.O_RDWR)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, KEPT)
        self._known: list[Sign] = []
        self._rest = b""

    def next(self, word: str) -> Sign:
        """Wait for the next sign that says ``word``; what comes before it is passed over."""
        while True:
            while not self._known:
                self._read()
            sign = self._known.pop(0)
            if sign.word == word:
                return sign

    def count(self, word: str) -> int:
        """Return how many signs say ``word`` of those that have been given and not looked at."""
        while select.select([self._pipe], [], [], 0)[0]:
            self._read()
        known, self._known = self._known, []
        return sum(sign.word == word for sign in known)

    def _read(self) -> None:
        ready, _, _ = select.select([self._pipe], [], [], PATIENCE)
        if not ready:
            raise TimeoutError(f"no sign of the workers in {PATIENCE:.0f} s")
        *lines, self._rest = (self._rest + os.read(self._pipe, 65536)).split(b"\n")
        for line in lines:
            word, name, at = line.decode().split(" ")
            self._known.append(Sign(word, name, float(at)))

    def close(self) -> None:
        os.close(self._pipe)
