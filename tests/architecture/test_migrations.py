"""Models and migrations say the same, and migrations lead there and back."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

APP = "hitl_django"


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", APP, check=True, dry_run=True, verbosity=0)


def schema() -> dict[str, int]:
    """Return how many constraints and indexes each of our tables has.

    Partitions of the archive are left out: which there are depends on what was archived before.
    """
    with connection.cursor() as cursor:
        tables = connection.introspection.get_table_list(cursor)
        names = sorted(table.name for table in tables if table.type != "p")
        constraints = connection.introspection.get_constraints
        return {name: len(constraints(cursor, name)) for name in names if name.startswith(APP)}


# Where a change of the schema is a part of the test's transaction, and undone with it.
@pytest.mark.database("postgresql")
@pytest.mark.django_db
@pytest.mark.promise("P16")
def test_the_schema_can_be_taken_back_to_nothing_and_made_again() -> None:
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes(APP)
    made = schema()
    assert len(made) > 10
    MigrationExecutor(connection).migrate([(APP, None)])
    assert schema() == {}
    MigrationExecutor(connection).migrate(newest)
    assert schema() == made
