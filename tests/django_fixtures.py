"""Fixtures for all tests with Django, and cleanup between tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import Model
from django.db.models.signals import post_migrate
from django.test import TransactionTestCase
from django.utils import translation

from hitl_django.contrib.insights import sampling, spot_check
from hitl_django.contrib.webhooks import outbox
from hitl_django.db.commit_threads import commit_threads
from hitl_django.graph_registry import compatibility
from tests import databases

#: Only the tests of email notifications need the endpoint, and they create it themselves.
post_migrate.disconnect(
    sender=apps.get_app_config("hitl_notifications"), dispatch_uid="hitl_django.notifications"
)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Delete the rows of a test that commits, except those that migrations created.

    Django truncates every table and sends post_migrate instead, which takes longer than most
    tests.
    """
    with django_db_blocker.unblock():
        tables = connection.introspection.django_table_names(only_existing=True)
        migrated = {
            model: (list(rows.all()), list_values(model))
            for model in apps.get_models()
            if (rows := model._base_manager).exists()
        }

    def empty_tables(test: TransactionTestCase) -> None:
        ContentType.objects.clear_cache()
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                # Wait for the transactions of other OS threads.
                cursor.execute(f"LOCK TABLE {', '.join(map(connection.ops.quote_name, tables))}")
            changed = [model for model, (_, old) in migrated.items() if list_values(model) != old]
            kept = {model._meta.db_table for model in migrated if model not in changed}
            for table in filled_tables(cursor, set(tables) - kept):
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
            for model in changed:
                model._base_manager.bulk_create(migrated[model][0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


def list_values(model: type[Model]) -> list[tuple[Any, ...]]:
    return list(model._base_manager.order_by("pk").values_list())


def filled_tables(cursor: Any, tables: Iterable[str]) -> list[str]:
    cursor.execute(
        " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})"
            for table in tables
        )
    )
    return [table for (table,) in cursor.fetchall()]


@pytest.fixture
def preparing() -> Iterator[None]:
    """Make PostgreSQL keep query plans."""
    options = connection.settings_dict["OPTIONS"]
    before = dict(options)
    connection.close()
    if connection.vendor == "postgresql":
        options["prepare_threshold"] = 0
    yield
    connection.close()
    options.clear()
    options.update(before)


@pytest.fixture(autouse=True)
def _nothing_of_another_test() -> Iterator[None]:
    outbox.clear_listeners()
    compatibility.clear_structures()
    yield
    # PostgreSQL drops no database in which another OS thread has a connection.
    commit_threads.close()
    for graph in sampling.list_graphs():
        spot_check(graph, rate=0)
    translation.deactivate()


@pytest.fixture
def database_url(transactional_db: None) -> Iterator[str]:
    return databases.to_url(connection)
