"""Fixtures for agents of other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hitl_django import testing
from hitl_django.graph_registry import registry


@pytest.fixture(autouse=True)
def only_these() -> Iterator[None]:
    with registry.hide_graphs():
        yield


@pytest.fixture
def advance() -> Iterator[Callable[[], int]]:
    with testing.inline() as function:
        yield function
