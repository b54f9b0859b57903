"""Users, and a worker that tests control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Model

from hitl_django import services, testing
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.notifications.models import NotificationPreferences
from hitl_django.contrib.webhooks.models import WebhookEndpoint
from hitl_django.models import AuditEntry, Interrupt, SavedFilter, Thread


@pytest.fixture
def advance(db: None) -> Iterator[Callable[[], int]]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def user(db: None) -> Callable[..., User]:
    """Return a function that creates a user with these permissions of the app."""

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
def interrupt(advance: Callable[[], int]) -> Interrupt:
    return asked("approval", {"text": "x"}, advance)


def asked(graph: str, given: Any, advance: Callable[[], int]) -> Interrupt:
    run = services.start(graph, given)
    advance()
    return Interrupt.objects.filter(run=run.id, status="pending").order_by("task_path")[0]


@pytest.fixture
def unchanged(db: None) -> Callable[..., None]:
    """Return a function that checks that no row of the app was added, changed or removed.

    The number of audit log entries about denied actions can be given.
    """

    def rows() -> dict[type[Model], list[str]]:
        with connection.cursor() as cursor:
            return {model: read(cursor, model) for model in models}

    def read(cursor: Any, model: type[Model]) -> list[str]:
        columns = [field.column for field in model._meta.local_concrete_fields]
        if model is Thread:  # An entry changes the end of the chain in the thread's row.
            columns = [column for column in columns if "audit" not in column]
        # Django takes longer to build these queries than the database to run them.
        names = ", ".join(map(connection.ops.quote_name, columns))
        condition = "WHERE verb <> 'refuse'" if model is AuditEntry else ""
        cursor.execute(f"SELECT {names} FROM {model._meta.db_table} {condition}")
        return sorted(map(str, cursor.fetchall()))

    models = [
        model
        for model in apps.get_models()
        if model._meta.app_label.startswith("hitl_") and not model._meta.proxy
    ]

    before: dict[str, Any] = {}

    def check(*, refused: int = 0) -> None:
        if not before:
            before.update(rows=rows())
            return
        assert rows() == before["rows"]
        assert AuditEntry.objects.filter(verb="refuse").count() == refused

    return check


@pytest.fixture
def lena(advance: Callable[[], int], settings: Any) -> User:
    """Create a superuser with rows in each table and each column for users."""
    settings.HITL = {**settings.HITL, "SITE_URL": "https://shop.example"}
    lena = User.objects.create_superuser("lena")
    rita = User.objects.create_superuser("rita")
    WebhookEndpoint.objects.create(
        url="https://hooks.example", secret="geheim", created_by=lena, created_by_label="lena"
    )
    NotificationPreferences.objects.create(user=lena, requested="daily")
    SavedFilter.objects.create(owner=lena, name="Mine")
    services.run_idempotent(lambda: 7, str, key="key-1", request={"a": 1}, by=lena)
    services.start("approval", {"text": "hers"}, by=lena, subject=lena)
    advance()
    interrupt = Interrupt.objects.get()
    services.assign(interrupt.pk, to=lena, by=rita)
    services.claim(interrupt.pk, by=lena)
    services.comment(interrupt.pk, "I think @lena knows.", by=rita)
    services.comment(interrupt.pk, "I do.", by=lena)
    create_review_link(interrupt.pk, name="Guest", expires=timedelta(days=1), by=lena)
    services.claim(interrupt.pk, by=rita, take_over=True)
    services.claim(interrupt.pk, by=lena, take_over=True)
    services.decide(interrupt.pk, "respond", {"approved": True, "text": "x"}, by=lena)
    advance()
    other = asked("approval", {"text": "not hers"}, advance)
    services.comment(other.pk, "Nothing about her, @rita.", by=rita)
    services.claim(other.pk, by=lena)
    services.release(other.pk, by=rita)
    services.claim(other.pk, by=lena)
    services.decide(other.pk, "respond", {"approved": True, "text": "x"}, by=rita)
    advance()
    return lena
