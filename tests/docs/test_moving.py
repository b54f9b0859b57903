"""A site moved from SQLite to PostgreSQL with the program in the guide."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests import databases

from .pages import ROOT, Page

pytestmark = [
    pytest.mark.database("postgresql"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.process,
]

GUIDE = Page("docs/guides/moving-to-postgresql.md")
SITE = """
from tests.settings import *
from tests.databases import from_url

OLD, NEW = from_url("sqlite:///{old}"), from_url({new!r})
DATABASES = {databases}
"""
#: Create a run that ended after an edit, a waiting run and a comment. All times have microseconds.
WORK = """
from django.contrib.auth.models import User
from hitl_django import services
from hitl_django.models import Interrupt
from hitl_django.testing import inline

ann = User.objects.create_superuser("ann")
with inline() as advance:
    for text in ("first", "second"):
        services.start("approval", {"text": text})
    advance()
    first, second = Interrupt.objects.order_by("created_at")
    services.comment(second.pk, "Who knows?", by=ann)
    services.decide(first.pk, "approve", by=ann)
    advance()
"""
GO_ON = """
from django.contrib.auth.models import Group, User
from hitl_django import services
from hitl_django.models import Interrupt, Run
from hitl_django.testing import inline

with inline() as advance:
    services.decide(Interrupt.objects.get(status="pending").pk, "approve", by=User.objects.get())
    advance()
assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
assert User.objects.create_user("bob").pk == User.objects.get(username="ann").pk + 1
"""

Manage = Callable[..., str]


@pytest.fixture
def new_database(transactional_db: None) -> Iterator[str]:
    name = f"moved_{os.getpid()}"
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    yield databases.to_url(connection, NAME=name)
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def manage(new_database: str, tmp_path: Path) -> Manage:
    """Run a command of the project, whose settings name one or both databases."""

    def run(databases: str, *arguments: str) -> str:
        named = {"old": str(tmp_path / "old.sqlite3"), "new": new_database}
        (tmp_path / "site_settings.py").write_text(SITE.format(**named, databases=databases))
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                # The old database doesn't contain the apps that tests/settings.py installs only for
                # PostgreSQL.
                "DATABASE_URL": f"sqlite:///{named['old']}",
                "DJANGO_SETTINGS_MODULE": "site_settings",
                "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_moving_guide_moves_pending_interrupts_and_audit_log_to_postgresql(
    manage: Manage, tmp_path: Path
) -> None:
    before, moving, after = '{"default": OLD}', '{"default": NEW, "old": OLD}', '{"default": NEW}'
    manage(before, "migrate", "-v0")
    manage(before, "shell", "-c", WORK)
    (program,) = GUIDE.programs
    (tmp_path / "move.py").write_text(program.code)

    manage(moving, "migrate", "-v0")
    manage(moving, "shell", "-c", "from move import copy_rows; copy_rows('old', 'default')")

    assert manage(after, "hitl", "verify-backup") == "2 threads checked: no problems found.\n"
    assert manage(after, "hitl", "verify-audit") == "The audit log is intact.\n"
    manage(after, "shell", "-c", GO_ON)
    assert manage(after, "hitl", "verify-audit") == "The audit log is intact.\n"
