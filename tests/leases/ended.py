"""Names of lease owners whose processes have ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from hitl_django.leases import lease_owner


@contextmanager
def running_owner() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a process, and yield the name that it would have as an owner of a lease."""
    with subprocess.Popen(["sleep", "600"]) as process:
        known = lease_owner._read_process(process.pid)
        assert known is not None
        system = lease_owner.find_system()
        yield f"host:{process.pid}:{known.started}@{system}:{uuid4().hex}", process
        process.kill()


def name_ended_owner() -> str:
    with running_owner() as (name, _):
        return name
