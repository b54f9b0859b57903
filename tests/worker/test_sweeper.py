"""Work that the sweep finds without a message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import run_leases, services, testing
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.task_queue import dispatcher
from hitl_django.worker import retention
from hitl_django.worker.sweeper import find_missed_since, is_any_due, sweep

Advance = Callable[[], int]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


def forget(*infos: services.RunInfo) -> None:
    testing.run_ids.clear()
    runs = Run.objects.filter(pk__in=[info.id for info in infos])
    runs.update(
        last_message_at=Now() - timedelta(seconds=settings.HITL.get("SWEEP_SECONDS", 30) + 1)
    )


@pytest.mark.promise("P8")
def test_sweep_requeues_all_runs_with_lost_messages(advance: Advance) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(20)]
    forget(*infos)
    assert advance() == 0
    sweep()
    assert advance() == 20
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.promise("P8")
def test_sweep_requeues_decided_run_whose_message_was_lost(advance: Advance) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    services.decide(Interrupt.objects.get().pk, "approve")
    forget(info)
    sweep()
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P7")
def test_sweep_requeues_run_of_dead_worker_after_its_lease_expired(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert run_leases.claim(info.id) is not None
    forget(info)
    sweep()
    assert advance() == 0  # the lease is still valid
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    sweep()
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P8")
def test_sweep_after_restart_requeues_run_whose_message_the_ended_processes_received(
    advance: Advance,
) -> None:
    info = services.start("steps", {"log": []})
    testing.run_ids.clear()
    assert sweep(after_restart=True) == [info.id]
    assert advance() == 1


def test_sweep_does_not_requeue_recently_queued_run(advance: Advance) -> None:
    services.start("steps", {"log": []})
    testing.run_ids.clear()
    sweep()
    assert advance() == 0


def test_repeated_sweeps_requeue_run_only_once_per_period(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    forget(info)
    for _ in range(3):
        sweep()
    assert testing.run_ids == [str(info.id)]


@pytest.mark.database("postgresql")
@pytest.mark.django_db(transaction=True)
def test_concurrent_sweeps_requeue_different_runs_without_blocking_each_other(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(4)]
    forget(*infos)
    found: list[list[UUID]] = []

    def other() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
        found.append(sweep())
        connection.close()

    def meanwhile(run_id: UUID, batch: WriteBatch) -> None:
        if not found:
            found.append([])
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    monkeypatch.setattr(dispatcher, "enqueue_message", meanwhile)
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        found.append(sweep())
    assert [len(ids) for ids in found] == [0, 2, 2]
    assert {*found[1], *found[2]} == {info.id for info in infos}


@pytest.mark.parametrize("state", ["interrupted", "succeeded", "failed", "parked", "cancelled"])
def test_sweep_does_not_requeue_interrupted_parked_or_ended_run(
    advance: Advance, state: str
) -> None:
    info = services.start("steps", {"log": []})
    Run.objects.update(state=state)
    forget(info)
    sweep()
    assert advance() == 0


def test_sweep_requeues_the_longest_waiting_run_first_within_its_batch(
    advance: Advance,
) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(5)]
    forget(*infos)
    first = infos[3]
    Run.objects.filter(pk=first.id).update(last_message_at=Now() - timedelta(hours=1))
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        sweep()
    assert len(testing.run_ids) == 2
    assert testing.run_ids[0] == str(first.id)


def test_repeated_sweeps_requeue_runs_beyond_the_batch_limit(advance: Advance) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(5)]
    forget(*infos)
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        assert [len(sweep()) for _ in range(4)] == [2, 2, 1, 0]
    assert sorted(testing.run_ids) == sorted(str(info.id) for info in infos)


@pytest.mark.promise("P8")
def test_run_whose_message_failed_in_one_sweep_is_requeued_by_the_next_sweep(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run_id: UUID, batch: WriteBatch) -> None:
        raise ConnectionError("the broker has gone away")

    info = services.start("steps", {"log": []})
    forget(info)
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "enqueue_message", refuse)
        with pytest.raises(ConnectionError):
            sweep()
    assert sweep() == [info.id]


@pytest.mark.promise("P8")
def test_sweep_requeues_running_run_without_lease(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert run_leases.claim(info.id) is not None
    Thread.objects.update(lease_until=None)
    forget(info)
    assert sweep() == [info.id]
    assert is_any_due([info.id])
    assert advance() == 1


@pytest.mark.promise("P8")
def test_is_any_due_returns_true_until_run_is_claimed_or_ended(advance: Advance) -> None:
    info, other = (services.start("steps", {"log": []}) for _ in range(2))
    assert is_any_due([info.id])
    assert run_leases.claim(info.id) is not None
    assert not is_any_due([info.id])
    assert is_any_due([info.id, other.id])
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert is_any_due([info.id])
    advance()
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert not is_any_due([info.id, other.id])


def age(info: services.RunInfo, **hours: int) -> None:
    times = {name: Now() - timedelta(hours=number) for name, number in hours.items()}
    Run.objects.filter(pk=info.id).update(**times)


@pytest.mark.promise("P8")
def test_find_missed_since_returns_time_of_run_that_no_sweep_has_requeued(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert find_missed_since() is None
    age(info, queued_at=3, last_message_at=2)
    assert find_missed_since() == Run.objects.get().last_message_at
    assert run_leases.claim(info.id) is not None
    # A worker is active, so the age of the last message doesn't matter.
    assert find_missed_since() is None
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert find_missed_since() is None  # the next sweep is due soon enough
    Thread.objects.update(lease_until=Now() - timedelta(hours=1))
    assert find_missed_since() == Run.objects.get().last_message_at


@pytest.mark.promise("P8")
def test_find_missed_since_returns_none_after_a_later_sweep_requeued_a_run(
    advance: Advance,
) -> None:
    late, ended, new = (services.start("steps", {"log": []}) for _ in range(3))
    age(late, queued_at=3, last_message_at=2)
    Run.objects.filter(pk=ended.id).update(state="succeeded", queued_at=Now() - timedelta(hours=3))
    assert Run.objects.get(pk=new.id).last_message_at == Run.objects.get(pk=new.id).queued_at
    assert find_missed_since() == Run.objects.get(pk=late.id).last_message_at
    age(new, queued_at=1)
    assert find_missed_since() is None


@pytest.mark.promise("P8")
@pytest.mark.parametrize("broken", ["expire_due", "warn_expiring", "mark_overdue"])
def test_sweep_whose_interrupt_processing_fails_still_requeues_runs(
    advance: Advance,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> int:
        raise OperationalError("canceling statement due to lock timeout")

    forget(services.start("steps", {"log": []}))
    monkeypatch.setattr(services, broken, fail)
    sweep()
    assert advance() == 1
    assert "interrupts could not be processed" in caplog.text


def test_sweep_whose_event_deletion_fails_still_returns_requeued_runs(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(days: float, limit: int) -> int:
        raise OperationalError("canceling statement due to lock timeout")

    info = services.start("steps", {"log": []})
    forget(info)
    monkeypatch.setattr(retention, "delete_events", fail)
    with override_settings(HITL={**settings.HITL, "EVENT_RETENTION_DAYS": 7}):
        assert sweep() == [info.id]
    assert "events could not be processed" in caplog.text


def test_sweep_with_unlimited_retention_deletes_no_thread_and_logs_no_error(
    advance: Advance, caplog: pytest.LogCaptureFixture
) -> None:
    services.start("steps", {"log": []})
    advance()
    with override_settings(HITL={"RETENTION_DAYS": None, "EVENT_RETENTION_DAYS": None}):
        sweep()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert Thread.objects.count() == 1
