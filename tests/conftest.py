"""What every test may use, and which tests a second database leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import settings

from tests import databases

# No deadline: how long one example takes says more about the machine than about the code.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")

#: Markers of tests that run several processes or watch the clock: never two of them at once.
ALONE = ("race", "crash", "cluster", "browser")
DATABASE_FIXTURES = frozenset({"db", "transactional_db", "live_server", "database_url"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database-only",
        action="store_true",
        help="leave out the tests that use no database",
    )


def pytest_report_header() -> str:
    return f"database: {connection.vendor}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--database-only"):
        kept = [item for item in items if uses_database(item)]
        config.hook.pytest_deselected(items=[item for item in items if not uses_database(item)])
        items[:] = kept
    for item in items:
        if any(item.get_closest_marker(name) for name in ALONE):
            item.add_marker(pytest.mark.xdist_group("alone"))


def uses_database(item: pytest.Item) -> bool:
    """Say whether the outcome of a test can depend on the database behind Django."""
    if item.get_closest_marker("django_db"):
        return True
    if DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return True
    cls = getattr(item, "cls", None)
    return cls is not None and issubclass(cls, TransactionTestCase)


@pytest.fixture
def database_url(transactional_db: None) -> Iterator[str]:
    """The test database's URL: DATABASE_URL for a child process that is to work on it."""
    return databases.to_url(connection)
