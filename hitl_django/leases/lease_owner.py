"""Names of the processes that own leases, and detection of owners that have ended.

A process id alone doesn't identify a process: other hosts and containers use the same ids, and the
kernel reuses them. On Linux, a name therefore also contains the start time of the process, and a
digest of the host, its boot id, and the namespaces in which process ids and times are valid. On
other systems, ended owners aren't detected, and their leases expire.
"""

from __future__ import annotations

import os
import re
import socket
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_NAME = re.compile(r":(\d+):(\d+)@([0-9a-f]{16}):[0-9a-f]{32}\Z")
_ENDED_STATES = ("Z", "X")


class _Process(NamedTuple):
    """A process in ``/proc``: its state letter, number of OS threads and start time."""

    state: str
    threads: int
    started: int


def name_owner() -> str:
    """Return a new name for an owner of leases in this process.

    The name consists of the host, the process id and a random part. If the start time of the
    process and the digest of the system are known, the name also contains both.
    """
    return f"{_name_process(os.getpid())}:{os.urandom(16).hex()}"[-255:]


def find_system() -> str | None:
    """Return a digest of the system (host, boot, container) of this process, or None if unknown."""
    return _find_system(os.getpid())


def has_ended(owner: str) -> bool:
    """Return whether the process that owns a lease is known to have ended.

    Processes of other hosts or containers can't be checked, so the result is False for them.
    """
    found = _NAME.search(owner)
    if found is None or found[3] != find_system():
        return False
    pid, started = int(found[1]), int(found[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # The process exists, but belongs to another user.
    process = _read_process(pid)
    if process is None:
        return False  # The process may be hidden from this user.
    # A process that has ended remains until its parent process has read its exit code.
    is_remnant = process.state in _ENDED_STATES and process.threads <= 1
    return is_remnant or process.started != started


@lru_cache(maxsize=1)
def _name_process(pid: int) -> str:
    system, process = _find_system(pid), _read_process(pid)
    name = f"{socket.gethostname()}:{pid}"
    return name if system is None or process is None else f"{name}:{process.started}@{system}"


@lru_cache(maxsize=1)
def _find_system(pid: int) -> str | None:
    try:
        if os.readlink(_PROC / "self") != str(pid):
            return None  # The file system shows the processes of another namespace.
        parts = [
            socket.gethostname(),
            (_PROC / "sys/kernel/random/boot_id").read_text(),
            *(os.readlink(_PROC / f"self/ns/{name}") for name in ("pid", "time")),
        ]
    except OSError:
        return None
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _read_process(pid: int) -> _Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program, in parentheses, may contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return _Process(fields[0], int(fields[17]), int(fields[19]))
