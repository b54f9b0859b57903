"""Leases and runs after a rolled-back transaction."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django import run_leases, services
from hitl_django.db import retry
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Interrupt, Run, RunEvent, Thread
from hitl_django.run_leases import transitions
from hitl_django.worker import runner
from tests.chaos import invariants
from tests.db.test_retry import conflict

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.promise("P10")
def test_run_pausing_with_retried_commit_stores_events_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FIRST", 0)
    # The second call first reads the stored responses in the transaction.
    run = services.start("panel", {"log": []}, events=["updates"]).id
    runner.advance(str(run))
    left, right = Interrupt.objects.order_by("task_path")
    services.decide(left.pk, "respond", "L")
    conflicts: list[int] = []
    pause = transitions._pause_with_lock

    def pause_and_conflict(*args: Any) -> None:
        pause(*args)
        if len(conflicts) < 2:
            conflicts.append(1)
            conflict()

    monkeypatch.setattr(transitions, "_pause_with_lock", pause_and_conflict)
    runner.advance(str(run))
    assert len(conflicts) == 2
    assert (Run.objects.get().state, Thread.objects.get().attempts) == ("interrupted", 0)
    assert invariants.faults() == []
    services.decide(right.pk, "respond", "R")
    runner.advance(str(run))
    assert Run.objects.get().state == "succeeded"
    seen = list(RunEvent.objects.order_by("seq").values_list("seq", flat=True))
    assert seen == list(range(1, len(seen) + 1))
    assert invariants.faults() == []


@pytest.mark.promise("P10")
def test_run_released_after_failed_commit_numbers_its_events_without_gaps() -> None:
    run = services.start("steps", {"log": []}, events=["updates"])
    lease = run_leases.claim(run.id)
    assert lease is not None
    lease.log.append_state(WriteBatch("default"), "running")  # never stored
    run_leases.release(lease, ValueError("the commit failed"), to_park=False)
    seen = RunEvent.objects.order_by("seq").values_list("seq", "kind")
    assert list(seen) == [(1, "queued"), (2, "queued")]
    assert Run.objects.get().last_event == 2
