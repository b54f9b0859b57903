"""Ended threads with a row in each of their tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.thread_tables import THREAD_TABLES
from tests.services.conftest import advance, user

__all__ = ["advance", "ended", "user"]


@pytest.fixture
def ended(advance: Callable[[], int]) -> Callable[..., Thread]:
    """Return a function that creates a thread that ended a number of days ago."""

    def make(days: float = 100, text: str = "x", **how: Any) -> Thread:
        run = services.start("approval", {"text": text}, events=["updates"], **how)
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
        boss, _ = User.objects.get_or_create(username="boss", is_superuser=True)
        desk, _ = Group.objects.get_or_create(name="desk")
        services.assign(interrupt.pk, group=desk, by=None)
        services.comment(interrupt.pk, f"What of {text}?", by=boss)
        create_review_link(interrupt.pk, name="Lena", email="lena@example.com")
        answer = {"approved": True, "text": text}
        made = services.decide(interrupt.pk, "respond", answer, reason=text, by=boss)
        SpotCheck.objects.create(interrupt=interrupt, decision_id=made.id, reason=text, by=boss)
        advance()
        age(run.id, days)
        return Thread.objects.get(thread_id=run.thread_id)

    return make


def age(run_id: Any, days: float) -> None:
    at = timezone.now() - timedelta(days=days)
    Run.objects.filter(pk=run_id).update(finished_at=at)
    Thread.objects.filter(runs=run_id).update(ended_at=at)


def rows_of(thread: Thread) -> dict[str, list[Any]]:
    """Return all rows of a thread, without the time of its restoration."""
    found = {}
    for model, lookup in THREAD_TABLES.items():
        names = [field.attname for field in model._meta.concrete_fields]
        rows = model._default_manager.filter(**{lookup: thread.pk}).order_by("pk")
        columns = rows.values_list(*(name for name in names if name != "restored_at"))
        found[model.__name__] = [[_plain(value) for value in row] for row in columns]
    return found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
