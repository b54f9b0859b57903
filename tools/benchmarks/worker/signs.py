"""Signals from the processes of a cluster to the measuring process.

A signal is a line with a time in a named pipe.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from dataclasses import dataclass

#: Environment variable that contains the path of the pipe.
VARIABLE = "HITL_BENCH_SIGNS"
# Maximum number of seconds without a signal. After a worker has died, its run waits for 60 seconds.
PATIENCE = 120.0
KEPT = 1 << 20  # Size of the pipe in bytes, sufficient for all unread signals of a measurement.


@dataclass(frozen=True, slots=True)
class Sign:
    """An event with the name of its task, and a time on a clock that all processes share."""

    word: str
    name: str
    at: float


_pipe: int | None = None


def give(word: str, name: str) -> None:
    """Send a signal to the measuring process.

    Outside of a measurement, nothing is sent.
    """
    global _pipe
    if VARIABLE not in os.environ:
        return
    if _pipe is None:
        _pipe = os.open(os.environ[VARIABLE], os.O_WRONLY)
    os.write(_pipe, f"{word} {name} {time.monotonic()}\n".encode())


class Signs:
    """Receiver of signals.

    All processes find its named pipe by an environment variable.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "signs")
        os.mkfifo(self.path)
        # Opened for reading and writing, so that reading doesn't end while no other process has
        # opened the pipe.
        self._pipe = os.open(self.path, os.O_RDWR)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, KEPT)
        self._known: list[Sign] = []
        self._rest = b""

    def next(self, word: str) -> Sign:
        """Wait for the next signal with this word.

        Other signals are skipped.
        """
        while True:
            while not self._known:
                self._read()
            sign = self._known.pop(0)
            if sign.word == word:
                return sign

    def count(self, word: str) -> int:
        """Return the number of unread signals with this word."""
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
