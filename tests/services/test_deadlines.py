"""Deadlines of pending interrupts: overdue, expiry warnings and escalation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import Expiry, audit, services, signals
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread
from hitl_django.services.reviews import deadlines
from hitl_django.worker.sweeper import sweep
from tests import graphs
from tests.reading import values_of

from .conftest import asked

Advance = Callable[[], int]
HOUR = timedelta(hours=1)
DAY = 24 * HOUR


@pytest.fixture
def interrupt(advance: Advance) -> Iterator[Callable[..., Interrupt]]:
    def ask(*terms: Any, **named: Any) -> Interrupt:
        graphs.PATIENCE[:] = [Expiry(*terms, **named)]
        return asked("patient", {"log": []}, advance)

    yield ask
    graphs.PATIENCE.clear()


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    heard: list[tuple[str, Any]] = []

    def expiring(**values: Any) -> None:
        heard.append(("expiring", values))

    def expired(**values: Any) -> None:
        heard.append(("expired", values))

    signals.interrupt_expiring.connect(expiring)
    signals.interrupt_expired.connect(expired)
    yield heard
    signals.interrupt_expiring.disconnect(expiring)
    signals.interrupt_expired.disconnect(expired)


@pytest.fixture
def sweeping(django_capture_on_commit_callbacks: Callable[..., Any]) -> Callable[[], None]:
    def run() -> None:
        with django_capture_on_commit_callbacks(execute=True):
            sweep()

    return run


def pass_(time: timedelta) -> None:
    moments = ("expires_at", "warn_at", "due_at", "created_at")
    Interrupt.objects.update(**{moment: F(moment) - time for moment in moments})


def again(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=interrupt.pk)


def test_interrupt_past_its_due_date_is_marked_overdue_once(
    interrupt: Callable[..., Interrupt],
) -> None:
    row = interrupt(DAY)
    Interrupt.objects.update(due_at=Now() + HOUR)
    sweep()
    assert not again(row).overdue
    pass_(HOUR)
    sweep()
    assert again(row).overdue
    assert services.mark_overdue() == 0


@pytest.mark.django_db(transaction=True)
def test_mark_overdue_updates_rows_inside_a_transaction(
    interrupt: Callable[..., Interrupt],
) -> None:
    interrupt(DAY)
    Interrupt.objects.update(due_at=Now() - HOUR)
    inside: list[bool] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE"):
            inside.append(connection.in_atomic_block)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        assert services.mark_overdue() == 1
    assert inside == [True]


def test_mark_overdue_marks_at_most_sweep_batch_interrupts_per_call(
    interrupt: Callable[..., Interrupt],
) -> None:
    for _ in range(3):
        interrupt(DAY)
    Interrupt.objects.update(due_at=Now() - HOUR)
    with override_settings(HITL={"SWEEP_BATCH": 2}):
        assert [services.mark_overdue() for _ in range(3)] == [2, 1, 0]


def test_mark_overdue_marks_the_longest_overdue_interrupts_first(
    interrupt: Callable[..., Interrupt],
) -> None:
    rows = [interrupt(DAY) for _ in range(3)]
    for row, hours in zip(rows, (2, 3, 1), strict=True):
        Interrupt.objects.filter(pk=row.pk).update(due_at=Now() - hours * HOUR)
    for first in (rows[1], rows[0], rows[2]):
        with override_settings(HITL={"SWEEP_BATCH": 1}):
            assert services.mark_overdue() == 1
        assert again(first).overdue


def test_expiry_warning_signal_is_sent_once_one_hour_before_expiry(
    interrupt: Callable[..., Interrupt],
    told: list[tuple[str, Any]],
    sweeping: Callable[[], None],
) -> None:
    row = interrupt(DAY)
    pass_(DAY - HOUR - timedelta(minutes=1))
    sweeping()
    assert told == []
    pass_(timedelta(minutes=2))
    sweeping()
    sweeping()
    assert [what for what, _ in told] == ["expiring"]
    values = told[0][1]
    assert (values["interrupt_id"], values["graph"]) == (str(row.pk), "patient")
    assert (values["run_id"], values["thread_id"]) == (str(row.run_id), row.thread.thread_id)
    assert values["expires_at"] == again(row).expires_at
    pass_(HOUR)
    sweeping()
    assert [what for what, _ in told] == ["expiring", "expired"]


def test_failed_expiry_warning_is_retried_and_does_not_block_other_warnings(
    interrupt: Callable[..., Interrupt],
    told: list[tuple[str, Any]],
    sweeping: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = interrupt(DAY), interrupt(DAY)
    pass_(DAY - timedelta(minutes=30))
    send = signals.send_on_commit

    def broken(*args: Any, interrupt_id: str, **values: Any) -> None:
        if interrupt_id == str(first.pk):
            raise RuntimeError("no more room")
        send(*args, interrupt_id=interrupt_id, **values)

    monkeypatch.setattr(signals, "send_on_commit", broken)
    sweeping()
    monkeypatch.undo()
    pass_(timedelta(minutes=5))
    sweeping()
    assert [values["interrupt_id"] for _, values in told] == [str(second.pk), str(first.pk)]


def test_mark_overdue_skips_cancelled_interrupt(interrupt: Callable[..., Interrupt]) -> None:
    row = interrupt(DAY)
    Interrupt.objects.update(due_at=Now() - HOUR, status="cancelled")
    assert services.mark_overdue() == 0
    assert not again(row).overdue


def test_expiry_warning_is_not_sent_while_run_is_parked(
    interrupt: Callable[..., Interrupt], told: list[tuple[str, Any]], sweeping: Callable[[], None]
) -> None:
    interrupt(DAY)
    pass_(DAY - timedelta(minutes=30))
    Run.objects.update(state="parked")
    sweeping()
    assert told == []
    Run.objects.update(state="interrupted")
    sweeping()
    assert [what for what, _ in told] == ["expiring"]


@pytest.mark.parametrize(
    "changes",
    [{"status": "cancelled"}, {"warn_at": None}, {"retry_at": None}],
    ids=["closed", "warned of", "as ever"],
)
def test_warn_expiring_batch_excludes_closed_and_already_warned_interrupts(
    interrupt: Callable[..., Interrupt],
    told: list[tuple[str, Any]],
    django_capture_on_commit_callbacks: Callable[..., Any],
    changes: dict[str, Any],
) -> None:
    first, second = interrupt(DAY), interrupt(DAY)
    pass_(DAY - timedelta(minutes=30))
    Interrupt.objects.filter(pk=first.pk).update(warn_at=F("warn_at") - HOUR)
    Interrupt.objects.filter(pk=first.pk).update(**changes)
    wanted, other = (first, second) if changes == {"retry_at": None} else (second, first)
    left = again(other).warn_at
    with (
        override_settings(HITL={"SWEEP_BATCH": 1}),
        django_capture_on_commit_callbacks(execute=True),
    ):
        assert services.warn_expiring() == 1
    assert again(other).warn_at == left
    assert [values["interrupt_id"] for _, values in told] == [str(wanted.pk)]


@pytest.mark.parametrize(
    "changes", [{"status": "superseded"}, {"warn_at": None}, {"warn_at": Now() + DAY}]
)
def test_warn_expiring_sends_no_warning_for_interrupt_changed_just_before_the_lock(
    interrupt: Callable[..., Interrupt],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    row = interrupt(DAY)
    pass_(DAY - timedelta(minutes=30))
    warn = deadlines._warn

    def and_then(pk: UUID) -> bool:
        Interrupt.objects.update(**changes)
        return warn(pk)

    monkeypatch.setattr(deadlines, "_warn", and_then)
    assert services.warn_expiring() == 0
    assert Interrupt.objects.filter(pk=row.pk, warn_at=None).exists() is (None in changes.values())


@pytest.mark.parametrize("changes", [{"status": "superseded"}, {"warn_at": None}])
def test_failed_expiry_warning_of_concurrently_changed_interrupt_is_not_postponed(
    interrupt: Callable[..., Interrupt],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    row = interrupt(DAY)
    pass_(DAY - timedelta(minutes=30))
    postpone = deadlines._postpone
    left: list[Any] = []

    def and_then(*args: Any) -> None:
        Interrupt.objects.update(**changes)
        left.append(again(row).warn_at)
        postpone(*args)

    monkeypatch.setattr(deadlines, "_postpone", and_then)
    monkeypatch.setattr(signals, "send_on_commit", None)
    services.warn_expiring()
    assert [again(row).warn_at] == left


def test_failed_expiry_warning_postpones_no_other_interrupt(
    interrupt: Callable[..., Interrupt], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (interrupt(DAY) for _ in range(3))
    pass_(DAY - timedelta(minutes=30))
    Interrupt.objects.filter(pk=third.pk).update(warn_at=F("warn_at") + HOUR / 4)
    Interrupt.objects.filter(pk=first.pk).update(warn_at=None)
    before = [again(row).warn_at for row in (first, third)]
    monkeypatch.setattr(signals, "send_on_commit", None)
    with override_settings(HITL={"SWEEP_BATCH": 1}):
        services.warn_expiring()
    assert [again(row).warn_at for row in (first, third)] == before
    assert Interrupt.objects.filter(pk=second.pk, warn_at__gt=Now()).exists()


def test_expiry_warning_of_ten_minute_expiry_is_sent_after_five_minutes(
    interrupt: Callable[..., Interrupt], told: list[tuple[str, Any]], sweeping: Callable[[], None]
) -> None:
    interrupt(timedelta(minutes=10))
    sweeping()
    pass_(timedelta(minutes=4))
    sweeping()
    assert told == []
    pass_(timedelta(minutes=1, seconds=1))
    sweeping()
    assert [what for what, _ in told] == ["expiring"]


def test_expiry_warning_is_not_sent_for_decided_interrupt(
    interrupt: Callable[..., Interrupt], told: list[tuple[str, Any]], sweeping: Callable[[], None]
) -> None:
    row = interrupt(DAY)
    services.decide(row.pk, "respond", {"seats": 2})
    pass_(DAY)
    sweeping()
    assert told == []


@pytest.mark.promise("P20")
def test_interrupt_escalated_on_expiry_stays_pending_and_gets_the_new_group(
    interrupt: Callable[..., Interrupt],
    told: list[tuple[str, Any]],
    sweeping: Callable[[], None],
    advance: Advance,
    user: Callable[..., User],
) -> None:
    leads = Group.objects.create(name="Leads")
    row = interrupt(DAY, "escalate", group="Leads")
    rita = user("rita", "view_interrupt", "decide_interrupt")
    until = row.created_at + 9 * DAY
    Interrupt.objects.update(assignee=rita, assignee_label="rita", snoozed_until=until)
    pass_(DAY)
    sweeping()
    row = again(row)
    assert (row.status, row.version, row.overdue, row.escalated_at is None) == (
        "pending", 1, True, False,
    )  # fmt: skip
    assert (row.group, row.group_label) == (leads, "Leads")
    assert (row.assignee, row.assignee_label, row.snoozed_until) == (None, "", None)
    assert (row.expires_at, row.due_at < row.escalated_at) == (None, True)
    assert not Decision.objects.exists()
    assert Run.objects.get().state == "interrupted"
    entry = AuditEntry.objects.get(verb="expire")
    assert (entry.actor_label, entry.via, entry.detail["type"], entry.detail["group"]) == (
        "system", "timeout", "escalate", "Leads",
    )  # fmt: skip
    assert audit.find_first_fault(Thread.objects.get()) is None
    assert told[-1][1]["then"] == "escalate"

    sweeping()  # once
    assert AuditEntry.objects.filter(verb="expire").count() == 1
    services.decide(row.pk, "respond", {"seats": 4}, version=1)
    advance()
    assert values_of(row.thread)["answers"] == [4]


def test_interrupt_expired_with_action_keep_stays_pending_and_claimed_and_becomes_overdue(
    interrupt: Callable[..., Interrupt], user: Callable[..., User]
) -> None:
    row = interrupt(DAY, "keep")
    rita = user("rita", "view_interrupt", "decide_interrupt")
    Interrupt.objects.update(due_at=row.created_at + HOUR)
    services.claim(row.pk, by=rita, seconds=1e6)
    pass_(DAY)
    sweep()
    row = again(row)
    assert (row.status, row.overdue, row.claimed_by, row.group) == ("pending", True, rita, None)
    assert row.due_at < row.created_at + 2 * HOUR  # it was due before it expired, and still is
    assert AuditEntry.objects.get(verb="expire").detail["type"] == "keep"


def test_expiry_with_unknown_escalation_group_marks_interrupt_overdue_and_logs_error(
    interrupt: Callable[..., Interrupt], caplog: pytest.LogCaptureFixture
) -> None:
    row = interrupt(DAY, "escalate", group="Nobody")
    pass_(DAY)
    with caplog.at_level(logging.ERROR, logger="hitl_django"):
        sweep()
    row = again(row)
    assert (row.status, row.overdue, row.group, row.expires_at) == ("pending", True, None, None)
    assert AuditEntry.objects.get(verb="expire").detail["group_is_missing"] is True
    assert "can't be escalated: unknown group" in caplog.text


@pytest.mark.parametrize(
    "terms", [(DAY, "escalate"), (DAY, "keep", None, "Leads"), (DAY, "park", None, "Leads")]
)
def test_expiry_with_escalate_but_no_group_or_group_without_escalate_raises_value_error(
    terms: tuple[Any, ...],
) -> None:
    with pytest.raises(ValueError, match="A group requires then='escalate'"):
        Expiry(*terms)
