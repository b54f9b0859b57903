"""Runs of a thread keep their order when the clocks are set back."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import F

from hitl_django import services
from hitl_django.engine import ids
from hitl_django.models import Run
from hitl_django.services.runs.operate import list_retryable
from hitl_django.services.runs.waiting import start_next_waiting_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("advance")]

HOUR = timedelta(hours=1)
THREAD = "thread"


@pytest.fixture
def set_clocks_back(monkeypatch: Any) -> Callable[[], None]:
    """Set the database's clock and that of a new process back by an hour, when called."""
    now = time.time_ns

    def set_back() -> None:
        Run.objects.update(created_at=F("created_at") + HOUR)
        monkeypatch.setattr(time, "time_ns", lambda: now() - HOUR.seconds * 10**9)
        importlib.reload(ids)  # simulates a new process

    return set_back


def start(graph: str, given: Any, **options: Any) -> UUID:
    return services.start(graph, given, thread_id=THREAD, **options).id


def test_fork_with_clocks_set_back_cancels_and_follows_the_newest_run(
    advance: Callable[[], int], set_clocks_back: Callable[[], None]
) -> None:
    first = start("approval", {"text": "a"}, on_pending="discard")
    advance()
    set_clocks_back()
    second = start("approval", {"text": "b"}, on_pending="discard")
    advance()
    forked = services.fork(THREAD, None).id
    states = dict(Run.objects.values_list("pk", "state"))
    assert states == {first: "cancelled", second: "cancelled", forked: "queued"}
    assert [*Run.select_newest(Run.objects.all()).values_list("pk", flat=True)] == [
        forked, second, first,
    ]  # fmt: skip


def test_retry_with_clocks_set_back_accepts_the_last_started_run(
    advance: Callable[[], int], set_clocks_back: Callable[[], None]
) -> None:
    older = start("approval", {"text": "a"})
    advance()
    services.cancel(older)
    set_clocks_back()
    newer = start("approval", {"text": "b"})
    Run.objects.update(state=Run.State.FAILED)
    assert list(list_retryable("failed")) == [newer]
    assert services.retry(newer).state == Run.State.QUEUED


def test_waiting_runs_with_clocks_set_back_start_in_creation_order(
    advance: Callable[[], int], set_clocks_back: Callable[[], None]
) -> None:
    start("approval", {"text": "a"})
    advance()
    second = start("approval", {"text": "b"}, on_pending="wait")
    set_clocks_back()
    third = start("approval", {"text": "c"}, on_pending="wait")
    services.cancel(Run.objects.get(state="interrupted").pk)
    assert start_next_waiting_run(third) == second
