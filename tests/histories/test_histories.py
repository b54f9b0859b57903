"""Threads saved by earlier versions: loaded, resumed and finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from hitl_django import audit
from hitl_django.models import Run, Thread
from tests import databases
from tests.chaos import invariants
from tests.reading import values_of

from . import example_app, graphs
from .__main__ import HERE
from .stages import ended, finish, make
from .upgrade import SCHEMAS

ROOT = HERE.parents[1]
SAVED = sorted(HERE.glob("*.json"))
#: The faults of threads that were all finished.
FINISHED: dict[str, list[str]] = {"left": [], "errors": [], "record": [], "invariants": []}


@pytest.fixture(autouse=True)
def registered(db: None) -> Iterator[None]:
    graphs.register()
    yield
    graphs.unregister()


def content_of(message: Any) -> str:
    return str(message["content"] if isinstance(message, dict) else message.content)


@pytest.mark.promise("P16")
@pytest.mark.parametrize("path", SAVED, ids=[path.stem for path in SAVED])
def test_threads_saved_by_earlier_version_resume_and_finish(path: Path) -> None:
    call_command("loaddata", path, verbosity=0, ignorenonexistent=True)
    threads = {thread.thread_id: thread for thread in Thread.objects.all()}
    assert {"paused", "queued", "decided", "under-way", "finished"} <= threads.keys()
    assert ended() == {"finished"}
    assert not any(audit.find_first_fault(thread) for thread in Thread.objects.all())

    finish()
    assert dict(Run.objects.values_list("thread__thread_id", "error")) == dict.fromkeys(threads, "")
    assert ended() == threads.keys()
    done = values_of(threads["finished"])
    for name in ("paused", "queued", "decided", "under-way"):
        found = values_of(threads[name])
        assert sorted(map(str, found["log"])) == sorted(map(str, done["log"])), name
        assert found["values"] == done["values"] == graphs.VALUES
        assert [content_of(message) for message in found["messages"]] == ["Good morning"]
    assert values_of(threads["gated-at-its-breakpoint"])["log"] == ["worked"]
    assert not any(audit.find_first_fault(thread) for thread in Thread.objects.all())
    assert invariants.faults() == []


@contextmanager
def new_database(path: Path) -> Iterator[str]:
    """Return the URL of an empty database of the tested kind."""
    if connection.vendor == "sqlite":
        yield databases.to_url(connection, NAME=path / "upgraded.sqlite3")
        return
    name = f"upgraded_{os.getpid()}"
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    try:
        yield databases.to_url(connection, NAME=name)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.process
@pytest.mark.promise("P16")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", SCHEMAS)
def test_database_of_earlier_version_is_migrated_and_its_threads_can_be_finished(
    name: str, tmp_path: Path
) -> None:
    with new_database(tmp_path) as url:
        assert run_program("tests.histories.upgrade", name, url) == FINISHED


def run_program(program: str, name: str, url: str) -> Any:
    """Return the JSON that a program in this folder prints about a database."""
    ran = subprocess.run(
        [sys.executable, "-m", program, name],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.process
@pytest.mark.promise("P16")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_pages_and_routes_of_example_app_work_after_migration_from_an_earlier_version(
    name: str, tmp_path: Path
) -> None:
    with new_database(tmp_path) as url:
        assert run_program("tests.histories.upgrade_app", name, url) == {
            "rows": [
                ["paused", 2, "The thread is paused."],
                ["finished", 4, "The thread is finished."],
            ],
            "verb": ["4", "stars"],
            "API": [2, 4],
            "API without a user": 403,
            "page": "2 ratings",
            "page of the admin": 200,
            "link in queue": True,
            "link in decisions": True,
            "panel": True,
            "panel with an error": True,
            "panel with a rating": [302, 5],
            "audit verb": "Rated a request",
            "event": ["rating requested", True],
            "setting": True,
            "subscriber": ["interrupt.assigned", "rating.requested"],
            "task": ["Please rate this."],
            "sweep": [0, 3],
            "threads": FINISHED,
            "exported": [["paused", 2], ["finished", 4]],
            "archived": [2, 0, True],
            "pseudonymized": [True, True],
            "erased": [[2, "The thread is paused."], [4, ""], [5, ""]],
            "doctor": True,
        }


@pytest.mark.promise("P16")
@pytest.mark.parametrize("name", SCHEMAS)
def test_extension_interface_has_no_breaking_change_since_an_earlier_version(name: str) -> None:
    saved = example_app.read(name)["interface"]
    assert [*example_app.find_breaks(saved, example_app.describe_interface())] == []


def test_every_saved_history_has_a_saved_database_schema() -> None:
    assert {path.stem for path in SAVED} == SCHEMAS.keys() != set()
    assert {path.stem for path in example_app.SAVED.iterdir()} == SCHEMAS.keys()


@pytest.mark.promise("P16")
def test_threads_saved_by_the_current_version_resume_and_finish() -> None:
    make()
    finish()
    assert ended() == set(Thread.objects.values_list("thread_id", flat=True))
