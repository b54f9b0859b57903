"""Users, and a worker that works when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import Model

from hitl_django import models, services, testing
from hitl_django.models import Interrupt


@pytest.fixture
def advance(db: None) -> Iterator[Callable[[], int]]:
    """Advance every run that was hinted."""
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def user(db: None) -> Callable[..., User]:
    """Make a user with these of the app's permissions."""

    def make(name: str, *codenames: str) -> User:
        made = User.objects.create_user(name)
        made.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        assert made.user_permissions.count() == len(codenames)
        return User.objects.get(pk=made.pk)

    return make


@pytest.fixture
def reviewer(user: Callable[..., User]) -> User:
    return user("rita", "view_interrupt", "decide_interrupt")


@pytest.fixture
def question(advance: Callable[[], int]) -> Interrupt:
    """Return an open question of a fresh run."""
    return asked("approval", {"text": "x"}, advance)


def asked(graph: str, given: Any, advance: Callable[[], int]) -> Interrupt:
    """Start a run, let it come to its pause, and return its first open question."""
    run = services.start(graph, given)
    advance()
    return Interrupt.objects.filter(run=run.id, status="pending").order_by("task_path")[0]


@pytest.fixture
def unchanged(db: None) -> Callable[[], None]:
    """Check, when called, that no row of the app was added, changed or removed since."""

    def rows() -> dict[type[Model], list[Any]]:
        return {
            model: sorted(map(str, model._default_manager.values_list()))
            for model in (getattr(models, name) for name in models.__all__)
        }

    before: dict[str, Any] = {}

    def check() -> None:
        if not before:
            before.update(rows=rows())
            return
        assert rows() == before["rows"]

    return check
