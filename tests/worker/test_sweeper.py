"""The sweep finds what no message brought along."""

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
    runs.update(hinted_at=Now() - timedelta(seconds=settings.HITL.get("SWEEP_SECONDS", 30) + 1))


@pytest.mark.promise("P8")
def test_runs_whose_hints_were_all_lost_are_run(advance: Advance) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(20)]
    forget(*infos)
    assert advance() == 0
    sweep()
    assert advance() == 20
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.promise("P8")
def test_an_answer_whose_hint_was_lost_is_acted_on(advance: Advance) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    services.decide(Interrupt.objects.get().pk, "approve")
    forget(info)
    sweep()
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P7")
def test_a_dead_workers_run_is_taken_up_when_its_lease_is_over(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert run_leases.claim(info.id) is not None
    forget(info)
    sweep()
    assert advance() == 0  # the lease still stands
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    sweep()
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"


def test_a_run_that_was_just_hinted_is_left_alone(advance: Advance) -> None:
    services.start("steps", {"log": []})
    testing.run_ids.clear()
    sweep()
    assert advance() == 0


def test_a_run_is_hinted_once_per_period_however_many_sweeps(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    forget(info)
    for _ in range(3):
        sweep()
    assert testing.run_ids == [str(info.id)]


@pytest.mark.database("postgresql")
@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_hint_different_runs_and_none_waits_for_the_other(
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

    monkeypatch.setattr(dispatcher, "enqueue", meanwhile)
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        found.append(sweep())
    assert [len(ids) for ids in found] == [0, 2, 2]
    assert {*found[1], *found[2]} == {info.id for info in infos}


@pytest.mark.parametrize("state", ["interrupted", "succeeded", "failed", "parked", "cancelled"])
def test_a_run_that_waits_for_people_or_nothing_is_left_alone(advance: Advance, state: str) -> None:
    info = services.start("steps", {"log": []})
    Run.objects.update(state=state)
    forget(info)
    sweep()
    assert advance() == 0


def test_a_sweep_takes_those_that_wait_longest_and_no_more_than_its_batch(
    advance: Advance,
) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(5)]
    forget(*infos)
    first = infos[3]
    Run.objects.filter(pk=first.id).update(hinted_at=Now() - timedelta(hours=1))
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        sweep()
    assert len(testing.run_ids) == 2
    assert testing.run_ids[0] == str(first.id)


def test_what_does_not_fit_into_a_batch_is_left_to_the_next_sweep(advance: Advance) -> None:
    infos = [services.start("steps", {"log": []}) for _ in range(5)]
    forget(*infos)
    with override_settings(HITL={**settings.HITL, "SWEEP_BATCH": 2}):
        assert [len(sweep()) for _ in range(4)] == [2, 2, 1, 0]
    assert sorted(testing.run_ids) == sorted(str(info.id) for info in infos)


@pytest.mark.promise("P8")
def test_a_run_whose_hint_failed_is_left_to_the_next_sweep(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run_id: UUID, batch: WriteBatch) -> None:
        raise ConnectionError("the broker has gone away")

    info = services.start("steps", {"log": []})
    forget(info)
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "enqueue", refuse)
        with pytest.raises(ConnectionError):
            sweep()
    assert sweep() == [info.id]


@pytest.mark.promise("P8")
def test_a_run_under_way_whose_thread_is_free_is_taken_up(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert run_leases.claim(info.id) is not None
    Thread.objects.update(lease_until=None)
    forget(info)
    assert sweep() == [info.id]
    assert is_any_due([info.id])
    assert advance() == 1


@pytest.mark.promise("P8")
def test_a_run_is_still_due_until_it_is_led_or_over(advance: Advance) -> None:
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
def test_what_no_sweep_has_seen_to_is_missed(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    assert find_missed_since() is None
    age(info, queued_at=3, hinted_at=2)
    assert find_missed_since() == Run.objects.get().hinted_at
    assert run_leases.claim(info.id) is not None
    assert find_missed_since() is None  # somebody is at work, however long ago it was hinted at
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert find_missed_since() is None  # a sweep comes soon enough
    Thread.objects.update(lease_until=Now() - timedelta(hours=1))
    assert find_missed_since() == Run.objects.get().hinted_at


@pytest.mark.promise("P8")
def test_only_a_hint_that_a_sweep_gave_shows_that_somebody_sweeps(advance: Advance) -> None:
    late, ended, new = (services.start("steps", {"log": []}) for _ in range(3))
    age(late, queued_at=3, hinted_at=2)
    Run.objects.filter(pk=ended.id).update(state="succeeded", queued_at=Now() - timedelta(hours=3))
    assert Run.objects.get(pk=new.id).hinted_at == Run.objects.get(pk=new.id).queued_at
    assert find_missed_since() == Run.objects.get(pk=late.id).hinted_at
    age(new, queued_at=1)
    assert find_missed_since() is None


@pytest.mark.promise("P8")
@pytest.mark.parametrize("broken", ["expire_due", "warn_expiring", "mark_overdue"])
def test_what_goes_wrong_with_interrupts_keeps_no_run_waiting(
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


def test_what_goes_wrong_with_events_does_not_hide_which_runs_were_hinted(
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


def test_what_is_to_be_kept_for_ever_is_nothing_that_a_sweep_fails_at(
    advance: Advance, caplog: pytest.LogCaptureFixture
) -> None:
    services.start("steps", {"log": []})
    advance()
    with override_settings(HITL={"RETENTION_DAYS": None, "EVENT_RETENTION_DAYS": None}):
        sweep()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert Thread.objects.count() == 1


def test_a_run_that_should_have_gone_on_after_an_undo_was_possible_is_missed(
    advance: Advance,
) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    assert find_missed_since() is None
    since = Now() - timedelta(hours=1)
    Run.objects.filter(pk=info.id).update(resumes_at=since)
    assert find_missed_since() is not None
