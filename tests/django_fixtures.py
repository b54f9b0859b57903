"""Fixtures for all tests with Django, and cleanup between tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.db import connection, transaction
from django.db.models.signals import post_migrate
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
    """Restore the rows that migrations create after each flush of the database.

    Django sends post_migrate instead, which takes longer than most tests.
    """
    with django_db_blocker.unblock():
        tables = [list(model._base_manager.all()) for model in apps.get_models()]

    def restore(verbosity: int, interactive: bool, db: str) -> None:
        ContentType.objects.clear_cache()
        with transaction.atomic(using=db):
            for rows in filter(None, tables):
                type(rows[0])._base_manager.using(db).bulk_create(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "emit_post_migrate_signal", restore)
        yield


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
def _no_commit_threads_of_another_test() -> Iterator[None]:
    yield
    # PostgreSQL drops no database in which another OS thread has a connection.
    commit_threads.close()


@pytest.fixture(autouse=True)
def _no_webhooks_of_another_test() -> None:
    outbox.clear_listeners()


@pytest.fixture(autouse=True)
def _no_shapes_of_another_test() -> None:
    compatibility.clear_structures()


@pytest.fixture(autouse=True)
def _no_spot_checks_of_another_test() -> Iterator[None]:
    yield
    for graph in sampling.list_graphs():
        spot_check(graph, rate=0)


@pytest.fixture(autouse=True)
def _no_language_of_another_test() -> Iterator[None]:
    yield
    translation.deactivate()


@pytest.fixture
def database_url(transactional_db: None) -> Iterator[str]:
    return databases.to_url(connection)
