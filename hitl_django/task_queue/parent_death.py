"""Binding of a process to its parent: the process ends when the parent ends.

This also works if the parent is killed with SIGKILL. On Linux, the kernel ends a process that has
requested this (``PR_SET_PDEATHSIG`` of ``prctl(2)``). Forks don't inherit the request, so each fork
must repeat the request. On other platforms, the functions of this module do nothing. The processes
of a queue then end when they next report to the supervisor (``supervisor_pipe``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: The environment variable with the id of the parent process.
VARIABLE = "HITL_PARENT"
PR_SET_PDEATHSIG = 1

#: Whether the platform supports the request.
is_supported = sys.platform == "linux"


class _Process:
    """The binding of this process to its parent.

    If ``is_bound`` is true, this process ends with its parent. ``generations`` is the number of
    levels of forks that also end with their parents. ``pid`` is the id of this process.
    """

    pid = 0
    generations = 0
    is_bound = False


def build_environment() -> dict[str, str]:
    """Return environment variables for a child program that must end together with this process."""
    return {VARIABLE: str(os.getpid())}


def follow_parent() -> None:
    """Let this process end with its parent if the parent has used ``build_environment``.

    The variable that ``build_environment`` has set is removed from this process's environment, so
    that child processes don't inherit the variable.
    """
    parent = os.environ.pop(VARIABLE, "")
    if parent.isdecimal():
        bind(int(parent))


def bind(parent: int) -> None:
    """Let this process end with its parent, i.e. the process with the id ``parent``."""
    if not is_supported:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    _Process.is_bound, _Process.pid = True, os.getpid()
    if os.getppid() != parent:  # The parent ended before the request.
        os._exit(128 + signal.SIGKILL)


def extend_to_forks(generations: int) -> None:
    """Let forks of this process end when this process ends.

    ``generations`` is the number of levels: 2 includes forks of the forks. If this process doesn't
    end with its own parent, do nothing.
    """
    if _Process.is_bound and not _Process.generations:
        _Process.generations = generations
        os.register_at_fork(after_in_child=_follow_fork)


def _follow_fork() -> None:
    if _Process.generations:
        _Process.generations -= 1
        bind(_Process.pid)
