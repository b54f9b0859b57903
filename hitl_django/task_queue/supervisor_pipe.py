"""What the processes of a queue tell the supervisor that started them, down an inherited pipe.

Each word is one short write, which a pipe keeps whole however many write at once. Without a
supervisor there is no pipe and nothing is said; a supervisor that doesn't listen is not waited for.
One that is gone has left its processes to themselves: the first that notices ends all of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

#: The environment variable that names the pipe's end to write to.
VARIABLE = "HITL_PULSE"

Word = Literal["busy", "idle", "settled"]
WORDS: Mapping[str, Word] = {"busy": "busy", "idle": "idle", "settled": "settled"}


@dataclass(frozen=True, slots=True)
class Pulse:
    """One word of one process; ``seconds`` is how long a busy one may take, 0 for no limit."""

    word: Word
    pid: int
    seconds: float = 0.0


def is_supervised() -> bool:
    """Says whether a supervisor has started this process, or the one that it comes from."""
    return VARIABLE in os.environ


def say(word: Word, seconds: float = 0.0) -> None:
    """Tells the supervisor, if there is one."""
    pipe = os.environ.get(VARIABLE)
    if not pipe:
        return
    try:
        os.write(int(pipe), f"{word} {os.getpid()} {seconds}\n".encode())
    except BrokenPipeError:
        os.killpg(os.getpgrp(), signal.SIGKILL)  # the supervisor made this group, and is gone
    except (OSError, ValueError):
        pass  # nobody listens, or not fast enough; the work goes on


class Pipe:
    """The supervisor's end: what its processes said since it last asked."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)
        self._rest = b""

    def environment(self) -> dict[str, str]:
        """Returns what the processes' environment has to say."""
        return {VARIABLE: str(self.writing)}

    def heard(self) -> Iterator[Pulse]:
        """Gives what has been said since."""
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                if (pulse := _parse(line)) is not None:
                    yield pulse

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)

    def _read(self) -> bytes:
        try:
            return os.read(self.reading, 65536)
        except BlockingIOError:
            return b""


def _parse(line: bytes) -> Pulse | None:
    try:
        word, pid, seconds = line.decode().split(" ")
        return Pulse(WORDS[word], int(pid), float(seconds))
    except (ValueError, KeyError):
        return None  # something else wrote into the pipe
