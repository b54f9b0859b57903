"""Operations of several transactions: killed at any commit and repeated, with the same result."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db.models.functions import Now

from hitl_django import Expiry, services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.schedules import schedule
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.registered import unschedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import WebhookEndpoint
from hitl_django.graph_registry import registry
from hitl_django.models import GraphShape, Interrupt, Run, Thread
from hitl_django.testing.clock import move_back
from hitl_django.worker import reencryption, retention
from hitl_django.worker.sweeper import sweep
from tests import graphs
from tests.contrib.archive.conftest import advance, age, ended
from tests.graphs import steps
from tests.services.conftest import asked, lena, user
from tests.services.test_pseudonyms import find_name

from . import commits

__all__ = ["advance", "ended", "lena", "user"]

pytestmark = pytest.mark.django_db(transaction=True)

Advance = Callable[[], int]
Ended = Callable[..., Thread]


def hitl(*arguments: str) -> None:
    call_command("hitl", *arguments, stdout=io.StringIO(), stderr=io.StringIO())


@pytest.fixture
def talks(advance: Advance, ended: Ended, monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    """Create two threads that ended long ago and a waiting thread. A batch has one thread."""
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr("hitl_django.contrib.archive.retention.BATCH", 1)
    for number in range(2):
        run = services.start("steps", {"log": []}, thread_id=f"steps-{number}")
        advance()
        age(run.id, 90)
    return [ended(thread_id=name, text=name) for name in ("first", "second")]


def test_assert_same_after_kills_reports_operation_incomplete_after_kill() -> None:
    def store_both() -> None:
        if not GraphShape.objects.exists():
            for name in ("first", "second"):
                GraphShape.objects.create(fingerprint=name, graph=name, shape={})

    with pytest.raises(AssertionError, match="GraphShape, killed after commit 1"):
        commits.assert_same_after_kills(store_both)


def test_purge_killed_at_any_commit_deletes_all_threads_when_repeated(talks: list[Thread]) -> None:
    services.start("approval", {"text": "waits"})
    commits.assert_same_after_kills(lambda: hitl("purge", "--yes", "--days", "30"))


@pytest.mark.long
def test_prune_killed_at_any_commit_prunes_all_threads_when_repeated(talks: list[Thread]) -> None:
    commits.assert_same_after_kills(lambda: hitl("purge", "--yes", "--days", "30", "--prune"))


@pytest.mark.long
def test_event_deletion_killed_at_any_commit_deletes_all_events_when_repeated(
    talks: list[Thread],
) -> None:
    assert Run.objects.filter(last_event__gt=0).count() > 1
    commits.assert_same_after_kills(lambda: retention.delete_events(30, 100))


@pytest.mark.long
def test_archive_killed_at_any_commit_archives_all_threads_when_repeated(
    talks: list[Thread],
) -> None:
    commits.assert_same_after_kills(lambda: hitl("archive", "--older-than", "30d"))


@pytest.mark.long
def test_restore_killed_at_any_commit_restores_all_threads_when_repeated(
    talks: list[Thread],
) -> None:
    hitl("archive", "--older-than", "30d")
    commits.assert_same_after_kills(lambda: hitl("restore", "first", "second", "steps-0"))


@pytest.mark.long
def test_reencrypt_killed_at_any_commit_rewrites_every_row_when_repeated(
    talks: list[Thread], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reencryption, "BATCH", 4)
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    # Some rows are unencrypted, and the archived rows are encrypted with the old key.
    settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [old]}
    hitl("archive", "--older-than", "95d")
    settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [new, old]}
    commits.assert_same_after_kills(lambda: hitl("reencrypt"))
    settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [new]}
    hitl("reencrypt", "--check")


@pytest.mark.long
@pytest.mark.parametrize("known_by", ["name", "one thread", "the archive"])
def test_pseudonymize_killed_at_any_commit_leaves_no_name_when_repeated(
    lena: User, advance: Advance, known_by: str
) -> None:
    rita = User.objects.get(username="rita")
    for text in ("a", "b"):
        interrupt = asked("approval", {"text": text}, advance)
        services.comment(interrupt.pk, "Ask @lena.", by=rita)
        services.decide(interrupt.pk, "respond", {"approved": True, "text": text}, by=rita)
        advance()
    hers, _, _, last = Thread.objects.order_by("pk")
    if known_by != "name":
        # Only lena's actions in other threads link her former name to her account. The last two
        # threads contain only her name.
        WebhookEndpoint.objects.all().delete()
        lena.username = "renamed"
        lena.save()
    live = last if known_by == "the archive" else hers
    Thread.objects.exclude(pk=live.pk).update(ended_at="2020-01-01T00:00Z")
    hitl("archive", "--older-than", "30d")
    assert ArchivedThread.objects.count() == 3
    commits.assert_same_after_kills(lambda: hitl("pseudonymize-user", lena.username, "--yes"))
    assert find_name("lena") == set()


@pytest.mark.long
def test_due_schedule_starts_one_run_if_start_due_is_killed_at_any_commit_and_repeated(
    advance: Advance,
) -> None:
    with registry.hide_graphs():
        registry.register("hourly")(steps)
        schedule("hourly", "0 * * * *")
        try:
            for _ in range(2):
                create_schedule("hourly", "0 7 * * *", {"log": []})
            Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
            commits.assert_same_after_kills(start_due)
        finally:
            unschedule("hourly")


@pytest.mark.long
def test_sweep_killed_at_any_commit_and_repeated_leaves_same_rows_as_uninterrupted_sweep(
    talks: list[Thread], advance: Advance, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rita = User.objects.create_superuser("rita")
    webhook = webhook_services.create_webhook("https://hooks.example/")
    for name in ("Night", "Day"):
        Group.objects.create(name=name)
    graphs.PATIENCE.clear()
    for terms in ((), ("cancel",), ("answer", {"seats": 8}), ("keep",), ("escalate", None, "Day")):
        monkeypatch.setattr(graphs, "PATIENCE", [Expiry(timedelta(hours=1), *terms)])
        asked("patient", {"log": []}, advance)
    terms = {"due": timedelta(hours=1), "expires": Expiry(timedelta(days=9))}
    asked("reviewed", {"payload": "due", "terms": {**terms, "group": "Night"}}, advance)
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    undoable = asked("approval", {"text": "x"}, advance)
    services.decide(undoable.pk, "respond", {"approved": True, "text": "x"}, by=rita)
    services.start("approval", {"text": "lost"})
    create_schedule("approval", "0 7 * * *", {"text": "x"})
    services.run_idempotent(lambda: 7, str, key="key-1", request={"a": 1}, by=rita)
    for number in range(2):
        DjangoStore().put(("a",), str(number), {"n": number}, ttl=1)
    webhook_services.send_test_event(webhook.id)
    move_back(timedelta(days=40))
    Interrupt.objects.filter(graph="reviewed").update(warn_at=Now(), expires_at=None)
    settings.HITL = {
        **settings.HITL,
        "RETENTION_DAYS": {"steps": 30},
        "ARCHIVE_DAYS": {"approval": 60},
        "EVENT_RETENTION_DAYS": 10,
    }
    services.start("steps", {"log": []})  # so that the graph's structure stays in use
    commits.assert_same_after_kills(sweep)
