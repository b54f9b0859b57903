"""pytest plugin with the fixture ``hitl``, and cleanup after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hitl_django.testing import GraphEnvironment


@pytest.fixture
def hitl(db: None) -> Iterator[GraphEnvironment]:
    """Return an environment that replaces queue, worker and clock in a test.

    A run is executed only when the test calls a method of the environment.
    """
    # Import this late, because pytest loads the plugin before Django has its settings.
    from hitl_django.testing import GraphEnvironment

    with GraphEnvironment() as environment:
        yield environment


def pytest_runtest_teardown() -> None:
    """Close idle connections, because PostgreSQL can't drop a database that is in use."""
    if (module := sys.modules.get("hitl_django.db.shared_connections")) is not None:
        module.shared_connections.close()
