"""pytest plugin: the fixture ``hitl``, and cleanup after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hitl_django.testing import GraphEnvironment


@pytest.fixture
def hitl(db: None) -> Iterator[GraphEnvironment]:
    """Replace queue, worker and clock: runs are executed by the calls of the test."""
    # Only now: pytest loads this before Django has its settings.
    from hitl_django.testing import GraphEnvironment

    with GraphEnvironment() as environment:
        yield environment


def pytest_runtest_teardown() -> None:
    """Close the idle connections, because PostgreSQL cannot drop a database in use."""
    if (module := sys.modules.get("hitl_django.db.shared_connections")) is not None:
        module.shared_connections.close()
