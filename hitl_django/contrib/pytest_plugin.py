"""The pytest fixture ``hitl``, which comes with the package where pytest-django is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hitl_django.testing import GraphEnvironment


@pytest.fixture
def hitl(db: None) -> Iterator[GraphEnvironment]:
    """Stands in for queue, worker and clock: runs go on as the test makes its calls."""
    # Only now: pytest loads this before Django has its settings.
    from hitl_django.testing import GraphEnvironment

    with GraphEnvironment() as environment:
        yield environment
