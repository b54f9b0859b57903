"""Heartbeats of worker processes: a row for each, renewed after a task.

A queue whose processes are all there may still do nothing, so nothing here is written by a timer:
a process reports after it has carried out a task. A queue that has no task of its own for an idle
worker gets one from the sweep.
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

#: How long the row of a process that is gone is kept.
KEPT = timedelta(days=1)

#: The process that reported last, and when; a forked one has not reported yet.
_reported: tuple[int, float] | None = None


def report_work() -> None:
    """Record that this process has just worked, once in HEARTBEAT_SECONDS at most."""
    global _reported
    now, pid = time.monotonic(), os.getpid()
    since = now - _reported[1] if _reported is not None and _reported[0] == pid else None
    if since is not None and since < hitl.HEARTBEAT_SECONDS:
        return
    _reported = (pid, now)
    try:
        _write(pid)
    except Exception:
        # The work is done and stored; that nobody hears of it must not undo that.
        logger.exception("worker %s: could not write heartbeat", pid)


def report_idle(argument: str) -> None:
    """Carry out a message that only shows that a worker takes messages."""
    report_work()


def is_report_due() -> bool:
    """Return whether no worker has reported for so long that one should be made to."""
    limit = get_heartbeat_limit() / 3
    return not WorkerHeartbeat.objects.using(write_alias()).filter(at__gte=Now() - limit).exists()


def get_heartbeat_limit() -> timedelta:
    """Return after how long without a report a worker counts as gone.

    An idle worker reports when it carries out the scheduled sweep, or a message that the sweep sent
    it: twice a minute at best.
    """
    return timedelta(seconds=max(90.0, 3 * float(hitl.SWEEP_SECONDS)))


def _write(pid: int) -> None:
    host = socket.gethostname()
    owner = f"{host}:{pid}"[:255]
    # By its name, because the package itself knows of everything that is built on this module.
    version = str(import_module("hitl_django").__version__)
    rows = WorkerHeartbeat.objects.using(write_alias())
    # Zero rows: this process reports for the first time.
    if rows.filter(owner=owner).update(at=Now(), version=version):
        return
    row = WorkerHeartbeat(owner=owner, host=host[:255], pid=pid, version=version)
    rows.bulk_create([row], ignore_conflicts=True)
    rows.filter(at__lt=Now() - KEPT).delete()
