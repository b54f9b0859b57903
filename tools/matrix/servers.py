"""PostgreSQL servers of the releases that Debian has installed on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

INSTALLED = Path("/usr/lib/postgresql")


def find_releases() -> list[str]:
    """Return the installed major versions, oldest first."""
    return sorted((path.parent.parent.name for path in INSTALLED.glob("*/bin/postgres")), key=int)


@contextmanager
def open_server(release: str) -> Iterator[str]:
    """Yield the URL of a new server of a release.

    The server is deleted after the block.
    """
    folder = Path(tempfile.mkdtemp(prefix="hitl-postgres-"))
    as_user: tuple[str, ...] = ()
    if os.getuid() == 0:  # PostgreSQL refuses to run as root.
        shutil.chown(folder, "postgres")
        as_user = ("runuser", "-u", "postgres", "--")
    programs = INSTALLED / release / "bin"

    def call(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)

    data = str(folder / "data")
    try:
        call("initdb", "--pgdata", data, "--auth", "trust", "--username", "postgres")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=300"
        call("pg_ctl", "--pgdata", data, "--log", f"{data}/log", "--options", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder))}"
        finally:
            call("pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
