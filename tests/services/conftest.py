"""Users, and a worker that tests control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
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

    def rows() -> dict[type[Model], list[Any]]:
        found: dict[type[Model], list[Any]] = {
            model: sorted(map(str, model._default_manager.values_list()))
            for model in apps.get_models()
            if model._meta.app_label.startswith("hitl_")
            if model not in (AuditEntry, Thread)
        }
        # An entry changes the end of the chain in the thread's row.
        kept = [field.attname for field in Thread._meta.fields if "audit" not in field.name]
        found[Thread] = sorted(map(str, Thread.objects.values_list(*kept)))
        entries = AuditEntry.objects.exclude(verb="refuse")
        return {**found, AuditEntry: sorted(map(str, entries.values_list()))}

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
