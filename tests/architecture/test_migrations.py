"""Models compared with migrations, and reversal of migrations."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

APP = "hitl_django"
ROOT = Path(__file__).resolve().parents[2]
#: A new migration adds its line, as printed by ``sha256sum``. Existing lines never change.
FROZEN = Path(__file__).parent / "migrations.sha256"


@pytest.mark.django_db
def test_models_need_no_new_migration() -> None:
    call_command("makemigrations", APP, check=True, dry_run=True, verbosity=0)


@pytest.mark.promise("P16")
@pytest.mark.any_database
def test_released_migration_files_are_unchanged() -> None:
    digests = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (ROOT / APP).rglob("migrations/[0-9]*.py")
    }
    frozen = (line.split() for line in FROZEN.read_text().splitlines())
    assert digests == {path: digest for digest, path in frozen}


def schema() -> dict[str, int]:
    """Return the number of constraints and indexes of each table of the package.

    Partitions of the archive are omitted, because they depend on earlier archive runs.
    """
    with connection.cursor() as cursor:
        tables = connection.introspection.get_table_list(cursor)
        names = sorted(table.name for table in tables if table.type != "p")
        constraints = connection.introspection.get_constraints
        return {name: len(constraints(cursor, name)) for name in names if name.startswith(APP)}


# On this database, a schema change is part of the test's transaction and is rolled back with it.
@pytest.mark.database("postgresql")
@pytest.mark.django_db
@pytest.mark.promise("P16")
def test_migrations_reversed_and_applied_again_restore_the_schema() -> None:
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes(APP)
    made = schema()
    assert len(made) > 10
    MigrationExecutor(connection).migrate([(APP, None)])
    assert schema() == {}
    MigrationExecutor(connection).migrate(newest)
    assert schema() == made
