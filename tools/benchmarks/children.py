"""Measuring processes. Each has its own database and is controlled by lines of text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.__main__ import keep_bytecode
from tools.benchmarks import stores

ROOT = Path(__file__).resolve().parents[2]


def start(module: str, url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module as a process with this database."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    timeout: float,
    python: str = sys.executable,
) -> Any:
    """Run a module in a new process until it ends, and return the JSON in its last line.

    As in an installed package, later processes load the bytecode that earlier processes compiled.
    """
    done = subprocess.run(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env=keep_bytecode({**os.environ, **environment}),
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def ask(process: subprocess.Popen[str], interrupt: str) -> Any:
    """Send a line to a process, and return its response, which is one line of JSON."""
    write_line(process, interrupt)
    return json.loads(read_line(process))


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def write_line(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@contextmanager
def database(name: str, *, keep: bool) -> Iterator[str]:
    """Yield the URL of a PostgreSQL database.

    The database is new unless an earlier run kept it.
    """
    import psycopg

    with stores.postgres_server() as server:
        name = f"hitl_{name}" if keep else f"hitl_{name}_{os.getpid()}"
        with psycopg.connect(server, autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
            try:
                yield urlsplit(server)._replace(path=f"/{name}").geturl()
            finally:
                if not keep:
                    connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]
