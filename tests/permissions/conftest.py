"""The data and the users of the permission tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client

from hitl_django import testing
from hitl_django.extensions import list_models
from hitl_django.models import AuditEntry

from .people import AREAS, PEOPLE, Crowd, Person
from .world import POLICY, Hooks, Things, fill, graphs, hook

#: The users for a second database: those with most permissions, and those who lack only a few.
ENOUGH = ("nobody", "keeper", "minter", "blindfolded", "superuser")


@dataclass
class World:
    """All objects, by area."""

    areas: dict[str, Things] = field(default_factory=dict)
    hooks: Hooks | None = None
    crowd: Crowd = field(default_factory=Crowd)

    def fill(self, *areas: str) -> None:
        self.areas |= {area: fill(area) for area in areas}

    def client(self, person: Person) -> Client:
        return self.crowd.client(person)


@pytest.fixture(autouse=True)
def _policy(settings: Any, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    # Most requests are refused, and logging the refusals would take longer than the requests.
    caplog.set_level(logging.CRITICAL)
    settings.HITL = {**POLICY, "THROTTLE_WRITE": None, "THROTTLE_START": None,
                     "THROTTLE_DECIDE": None}  # fmt: skip
    cache.clear()
    with testing.inline():
        yield


@pytest.fixture
def empty_world(db: None) -> Iterator[World]:
    with graphs():
        yield World()


@pytest.fixture
def world(empty_world: World) -> World:
    empty_world.fill(*AREAS)
    empty_world.hooks = hook()
    return empty_world


@pytest.fixture
def people() -> list[Person]:
    if connection.vendor == "sqlite":
        return list(PEOPLE.values())
    return [PEOPLE[name] for name in ENOUGH]


def everything_of_ours() -> dict[str, list[Any]]:
    """Return every row of this app except the audit log, which also contains refusals."""
    return {
        model.__name__: [
            {name: value for name, value in row.items() if not name.startswith("audit_")}
            for row in model._default_manager.order_by("pk").values()
        ]
        for model in list_models()
        if model is not AuditEntry
    }
