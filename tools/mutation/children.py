"""Forked pytest processes that share the slow imports of their parent.

Importing Django, pytest and its plugins takes seconds, and so does migrating a database. The parent
imports these modules, but never the package under test. Each child imports the package from its own
tree, and starts with a copy of a migrated database.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from .trees import Tree

_FORK = multiprocessing.get_context("fork")

#: Modules without required settings that the package and its tests import.
IMPORTED = """
    django.contrib.auth.hashers django.core.management.commands.migrate django.db.models
    django.db.backends.sqlite3.base django.forms django.template.defaultfilters django.test
    django.views.generic django.views.debug hypothesis.strategies jsonschema ormsgpack psutil
    pydantic xxhash
"""
#: The package's pytest plugin. Each child imports it from its own tree, together with the package.
OWN = "hitl_django"
#: Prefix that pytest-django uses for the names of test databases.
TEST = "test_"


def warm_up() -> None:
    """Import the modules that children need."""
    sys.dont_write_bytecode = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for point in entry_points(group="pytest11"):
            if point.name != OWN:
                point.load()
        for name in IMPORTED.split():
            importlib.import_module(name)


class Child:
    """A forked process that runs one function in a tree."""

    def __init__(self, tree: Tree, function: Callable[..., int], *arguments: Any) -> None:
        self.tree = tree
        folder = tree.scratch.parent
        self.report, self._output = folder / "report.json", folder / "output.txt"
        self.report.unlink(missing_ok=True)
        target = (tree, self.report, self._output, function, arguments)
        self.process = _FORK.Process(target=_in_tree, args=target)
        self.process.start()
        # Unlike multiprocessing's sentinel, grandchildren don't keep this file open.
        self.ended = os.pidfd_open(self.process.pid or 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process and all its descendants."""
        try:
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()  # The process has not created its process group yet.
        self.process.join()
        os.close(self.ended)
        self.tree.clear()

    def wait(self, deadline: float) -> Iterator[tuple[int, float]]:
        """Wait until the process ends.

        Yields file descriptors and deadlines to wait for. Returns the exit code, or None after a
        timeout.
        """
        yield self.ended, deadline
        return self.process.exitcode

    @property
    def output(self) -> str:
        """The output of the process and its tests."""
        return self._output.read_text(errors="replace")

    def reported(self) -> Any:
        """The report of the process, or None."""
        return json.loads(self.report.read_text()) if self.report.exists() else None


def _in_tree(
    tree: Tree, report: Path, output: Path, function: Callable[..., int], arguments: Sequence[Any]
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tree.enter()
    tempfile.tempdir = None
    with output.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    code = 1
    try:
        code = function(report, *arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Database:
    """A migrated database, which is copied for each child."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.file = url, folder / "template.sqlite3"

    @property
    def name(self) -> str:
        return "postgresql" if self.url else "sqlite"

    def make(self, _report: Path) -> int:
        """Migrate the template database.

        A child runs this function.
        """
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        if self.url:
            os.environ["DATABASE_URL"] = _named(self.url, "template")
        import django
        from django.db import connection

        django.setup()
        name = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        connection.close()
        if not self.url:
            shutil.copy(name, self.file)
        return 0

    def take(self, job: str) -> None:
        """Copy the template database for the current process."""
        if not self.url:
            name = f"hitl_test_{os.getpid()}.sqlite3"
            shutil.copy(self.file, Path(tempfile.gettempdir()) / name)
            return
        import psycopg

        os.environ["DATABASE_URL"] = _named(self.url, job)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{TEST}{job}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{TEST}{job}" TEMPLATE "{TEST}template"')


def _named(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def run_pytest(
    report: Path, database: Database, job: str, arguments: Sequence[str], plugins: Sequence[Any]
) -> int:
    """Run tests with a copy of the database, and return pytest's exit code."""
    database.take(job)
    fixed = [
        "--reuse-db", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist",
        "-W", "ignore::pytest.PytestAssertRewriteWarning",
    ]  # fmt: skip
    if database.url:
        fixed.append("--database-only")
    return int(pytest.main([*fixed, *arguments], plugins=[*plugins, Reporter(report)]))


class Reporter:
    """pytest plugin that reports the first failed test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(json.dumps(report.nodeid))
