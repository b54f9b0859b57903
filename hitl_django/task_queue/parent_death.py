"""Ends a process when the one that started it is gone, even by SIGKILL.

Linux does so by itself for a process that has asked for it (``PR_SET_PDEATHSIG`` of ``prctl(2)``).
A fork doesn't inherit the request, so what forks passes it on. Elsewhere nothing happens here, and
the processes of a queue find out when they next report to it
(``supervisor_pipe``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: The environment variable that names the process to end with.
VARIABLE = "HITL_PARENT"
PR_SET_PDEATHSIG = 1

#: Whether the kernel can be asked.
is_supported = sys.platform == "linux"


class _Process:
    """This process, and how many generations after it are yet to end with their parents."""

    pid = 0
    generations = 0
    is_bound = False


def build_environment() -> dict[str, str]:
    """Return what a program's environment has to hold for it to end with this process."""
    return {VARIABLE: str(os.getpid())}


def follow_parent() -> None:
    """Has this process end with its parent, if that is what it was started with.

    The variable is removed: what this process starts is none of that parent's.
    """
    parent = os.environ.pop(VARIABLE, "")
    if is_supported and parent.isdecimal():
        _bind(int(parent))


def extend_to_forks(generations: int) -> None:
    """Has processes that this one forks end with it, and theirs with them, so many generations on.

    Does nothing in a process that doesn't end with its parent itself.
    """
    if _Process.is_bound and not _Process.generations:
        _Process.generations = generations
        os.register_at_fork(after_in_child=_follow_fork)


def _follow_fork() -> None:
    if _Process.generations:
        _Process.generations -= 1
        _bind(_Process.pid)


def _bind(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    _Process.is_bound, _Process.pid = True, os.getpid()
    if os.getppid() != parent:  # it was gone before the kernel was asked
        os._exit(128 + signal.SIGKILL)
