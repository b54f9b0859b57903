"""Heartbeats of worker processes: one row per process, updated after tasks.

A queue may be blocked although its processes are alive. Heartbeats are therefore written after
tasks and not by a timer. For idle workers, the sweep enqueues messages that only store a heartbeat.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from datetime import timedelta
from importlib import import_module

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.models import WorkerHeartbeat
from hitl_django.models.functions import Now

logger = logging.getLogger("hitl_django")

#: The time for which the row of an ended process is kept.
KEPT = timedelta(days=1)

#: The process id and the time of the last heartbeat. A forked process has another id.
_reported: tuple[int, float] | None = None


def report_work() -> None:
    """Store a heartbeat of this process, unless the last one is less than HEARTBEAT_SECONDS old."""
    global _reported
    now, pid = time.monotonic(), os.getpid()
    since = now - _reported[1] if _reported is not None and _reported[0] == pid else None
    if since is not None and since < hitl.HEARTBEAT_SECONDS:
        return
    _reported = (pid, now)
    try:
        _write(pid)
    except Exception:
        # An error here must not affect the task, which has already ended.
        logger.exception("worker %s: could not write heartbeat", pid)


def report_idle(argument: str) -> None:
    """Store a heartbeat of this process.

    Messages from the sweep call this function in idle workers. The argument is ignored.
    """
    report_work()


def is_report_due() -> bool:
    """Return whether the last heartbeat is so old that the sweep must request a new heartbeat."""
    limit = get_heartbeat_limit() / 3
    return not WorkerHeartbeat.objects.using(write_alias()).filter(at__gte=Now() - limit).exists()


def get_heartbeat_limit() -> timedelta:
    """Return the time without a heartbeat after which a worker is considered dead.

    An idle worker stores a heartbeat at most twice a minute: after a scheduled sweep, or after a
    message from the sweep.
    """
    return timedelta(seconds=max(90.0, 3 * float(hitl.SWEEP_SECONDS)))


def _write(pid: int) -> None:
    host = socket.gethostname()
    owner = f"{host}:{pid}"[:255]
    # The module is imported by name, because the package's root depends on this module.
    version = str(import_module("hitl_django").__version__)
    rows = WorkerHeartbeat.objects.using(write_alias())
    # Zero rows: this is the first heartbeat of the process.
    if rows.filter(owner=owner).update(at=Now(), version=version):
        return
    row = WorkerHeartbeat(owner=owner, host=host[:255], pid=pid, version=version)
    rows.bulk_create([row], ignore_conflicts=True)
    rows.filter(at__lt=Now() - KEPT).delete()
