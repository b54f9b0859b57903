"""Rules for migrations: applied while the site is in use, repeated, and reversed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connections
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from hitl_django.extensions import list_models

from . import samples
from .harness import MIGRATING, Databases, Trial, list_parents

LABELS = {model._meta.app_label for model in list_models()}
GRAPH = MigrationLoader(None, ignore_no_migrations=True).graph
#: The newest migrations come first, because every run of the suite includes a test's first cases.
MIGRATIONS = sorted(
    (f"{label}.{name}" for label, name in GRAPH.nodes if label in LABELS), reverse=True
)
#: Migrations of databases with rows. An initial migration has many statements in one transaction.
LATER = [name for name in MIGRATIONS if not GRAPH.nodes[tuple(name.split("."))].initial]


@pytest.fixture(scope="module")
def copied_databases(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: Any
) -> Iterator[Databases]:
    with django_db_blocker.unblock():
        made = Databases(tmp_path_factory.mktemp("databases"))
        yield made
        made.drop()


@pytest.fixture(scope="module")
def trial_of(copied_databases: Databases) -> Callable[[Migration], Trial]:
    """Return a migration's trial. Databases that several migrations share are created once."""
    made: dict[Any, str] = {}

    def make(migration: Migration) -> Trial:
        before = tuple(list_parents(migration))
        if before not in made:
            made[before] = copied_databases.make()
            copied_databases.open(made[before])
            MigrationExecutor(connections[MIGRATING]).migrate(list(before))
            copied_databases.close()
        return Trial(copied_databases, made[before], migration)

    return make


def sample(migration: Any) -> Migration:
    made: Migration = migration("9999_sample", samples.LABEL)
    made.dependencies = GRAPH.leaf_nodes(samples.LABEL)
    return made


@pytest.mark.parametrize("name", MIGRATIONS)
def test_migration_trial_with_concurrent_writers_kills_and_reversal_reports_no_fault(
    trial_of: Callable[[Migration], Trial], name: str
) -> None:
    trial = trial_of(GRAPH.nodes[tuple(name.split("."))])
    assert list(trial.find_faults()) == []


@pytest.mark.long
@pytest.mark.parametrize("name", [*samples.GOOD, *LATER])
def test_migration_trial_with_kill_at_every_statement_reports_no_fault(
    trial_of: Callable[[Migration], Trial], name: str
) -> None:
    good = samples.GOOD.get(name)
    trial = trial_of(sample(good) if good else GRAPH.nodes[tuple(name.split("."))])
    assert list(trial.find_faults(every_statement=True)) == []


@pytest.mark.parametrize("name", samples.GOOD)
def test_migration_trial_of_safe_sample_migration_reports_no_fault(
    trial_of: Callable[[Migration], Trial], name: str
) -> None:
    assert list(trial_of(sample(samples.GOOD[name])).find_faults()) == []


@pytest.mark.parametrize("name", samples.BAD)
@pytest.mark.slow
def test_migration_trial_of_unsafe_sample_migration_reports_its_fault(
    trial_of: Callable[[Migration], Trial], name: str
) -> None:
    migration, fault = samples.BAD[name]
    found: list[str] = []
    # The trial stops after the first fault.
    for line in trial_of(sample(migration)).find_faults():
        found.append(line)
        if line.startswith(fault):
            return
    pytest.fail(f"found only {found}")


@pytest.mark.database("sqlite")
def test_copied_sqlite_database_includes_uncheckpointed_write_ahead_log(
    copied_databases: Databases,
) -> None:
    template = copied_databases.make()
    with closing(sqlite3.connect(template)) as kept:
        kept.execute("PRAGMA journal_mode=WAL")
        kept.execute("CREATE TABLE logged (id)")
        kept.commit()
        with closing(sqlite3.connect(copied_databases.make(template))) as copy:
            assert copy.execute("SELECT name FROM sqlite_master").fetchall() == [("logged",)]
