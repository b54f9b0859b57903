"""Operations of several transactions: killed at any commit and begun again, they end the same."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import call_command

from hitl_django import services
from hitl_django.models import GraphShape, Run, Thread
from hitl_django.worker import retention
from tests.archive.conftest import advance, age, ended
from tests.services.conftest import user

from . import commits

__all__ = ["advance", "ended", "user"]

pytestmark = pytest.mark.django_db(transaction=True)

Advance = Callable[[], int]
Ended = Callable[..., Thread]


def hitl(*arguments: str) -> None:
    call_command("hitl", *arguments, stdout=io.StringIO(), stderr=io.StringIO())


@pytest.fixture
def talks(advance: Advance, ended: Ended, monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    """Return two threads that ended long ago and one that waits; batches hold one thread."""
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(retention, "ARCHIVED", 1)
    for number in range(2):
        run = services.start("steps", {"log": []}, thread_id=f"steps-{number}")
        advance()
        age(run.id, 90)
    return [ended(thread_id=name, text=name) for name in ("first", "second")]


def test_half_of_an_operation_that_is_not_repeated_is_noticed() -> None:
    def store_both() -> None:
        if not GraphShape.objects.exists():
            for name in ("first", "second"):
                GraphShape.objects.create(fingerprint=name, graph=name, shape={})

    with pytest.raises(AssertionError, match="killed before commit 2"):
        commits.assert_same_after_kills(store_both)


def test_deleting_old_threads_killed_at_any_commit_deletes_all(talks: list[Thread]) -> None:
    services.start("approval", {"text": "waits"})
    commits.assert_same_after_kills(lambda: hitl("retain", "--days", "30"))


@pytest.mark.long
def test_pruning_killed_at_any_commit_prunes_all(talks: list[Thread]) -> None:
    commits.assert_same_after_kills(lambda: hitl("retain", "--days", "30", "--prune"))


@pytest.mark.long
def test_deleting_events_killed_at_any_commit_deletes_all(talks: list[Thread]) -> None:
    assert Run.objects.filter(last_event__gt=0).count() > 1
    commits.assert_same_after_kills(lambda: retention.delete_events(30, 100))


@pytest.mark.long
def test_archiving_killed_at_any_commit_archives_all(talks: list[Thread]) -> None:
    commits.assert_same_after_kills(lambda: hitl("archive", "--older-than", "30d"))


@pytest.mark.long
def test_restoring_killed_at_any_commit_restores_all(talks: list[Thread]) -> None:
    hitl("archive", "--older-than", "30d")
    commits.assert_same_after_kills(lambda: hitl("restore", "first", "second", "steps-0"))
