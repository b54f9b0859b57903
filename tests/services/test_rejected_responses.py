"""Responses that the validator of a Python type rejects in the node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from hitl_django import services, signals
from hitl_django.errors import AlreadyDecidedError, IdempotencyKeyReusedError, StaleInterruptError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from tests.chaos import invariants
from tests.reading import values_of

from .conftest import asked

Advance = Callable[[], int]


@pytest.fixture
def booked(advance: Advance) -> Interrupt:
    return asked("booking", {"log": []}, advance)


def refused(interrupt: Interrupt, advance: Advance, **given: object) -> Interrupt:
    services.decide(interrupt.pk, "respond", {"seats": 3}, **given)
    advance()
    interrupt.refresh_from_db()
    return interrupt


@pytest.mark.promise("P5")
def test_response_rejected_by_node_makes_interrupt_pending_and_stores_refusal(
    booked: Interrupt,
    advance: Advance,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    told: list[str] = []

    def listen(interrupt_id: str, **kwargs: object) -> None:
        told.append(interrupt_id)

    signals.interrupt_created.connect(listen)
    with django_capture_on_commit_callbacks(execute=True):
        interrupt = refused(booked, advance, reason="three of us")

    assert told == [str(interrupt.pk)]
    assert (interrupt.status, interrupt.version, interrupt.closed_at) == ("pending", 3, None)
    run = Run.objects.get()
    assert (run.state, run.error) == ("interrupted", "")
    decision = Decision.objects.get()
    assert (decision.version, decision.value, decision.reason) == (1, {"seats": 3}, "three of us")
    assert "seats are sold in pairs" in decision.refusal
    assert (interrupt.refused(), interrupt.closing()) == (decision, None)
    entry = AuditEntry.objects.get(verb="reopen")
    assert (entry.actor_label, entry.via, entry.subject) == ("system", "worker", str(interrupt.pk))
    assert "pairs" not in str(entry.detail)
    assert invariants.faults() == []
    assert advance() == 0


@pytest.mark.promise("P5")
def test_rejected_response_makes_no_other_interrupt_pending_again(advance: Advance) -> None:
    interrupt = asked("booking", {"log": []}, advance)
    for seats in (2, 4, 6, 8):
        interrupt = Interrupt.objects.get(status="pending")
        for _ in range(2):
            interrupt = refused(interrupt, advance)
            assert interrupt.status == "pending"
        services.decide(interrupt.pk, "respond", {"seats": seats}, version=interrupt.version)
        advance()
    assert Run.objects.get().state == "succeeded"
    assert values_of(interrupt.thread)["answers"] == [2, 4, 6, 8]
    assert Decision.objects.exclude(refusal="").count() == 8
    assert dict(Interrupt.objects.values_list("title", "version")) == {
        f"Seats {name}?": 6 for name in (1, 2, "a", "b")
    }
    assert invariants.faults() == []


@pytest.mark.promise("P2")
def test_decide_with_key_of_rejected_decision_returns_that_decision(
    booked: Interrupt, advance: Advance, reviewer: User
) -> None:
    interrupt = refused(booked, advance, by=reviewer, key="k")
    again = services.decide(interrupt.pk, "respond", {"seats": 3}, by=reviewer, key="k")
    assert (again.repeated, again.version) == (True, 1)
    assert "pairs" in again.refusal
    with pytest.raises(IdempotencyKeyReusedError):
        services.decide(interrupt.pk, "respond", {"seats": 4}, by=reviewer, key="k")
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"
    services.decide(interrupt.pk, "respond", {"seats": 4}, by=reviewer, key="k2")
    repeats = [
        services.decide(interrupt.pk, "respond", {"seats": n}, by=reviewer, key=key).version
        for n, key in ((3, "k"), (4, "k2"))
    ]
    assert repeats == [1, 3]


@pytest.mark.promise("P1")
def test_each_interrupt_version_accepts_only_one_decision(
    booked: Interrupt, advance: Advance
) -> None:
    interrupt = refused(booked, advance)
    for shown in (1, 2):
        with pytest.raises(StaleInterruptError):
            services.decide(interrupt.pk, "respond", {"seats": 2}, version=shown)
    services.decide(interrupt.pk, "respond", {"seats": 2}, version=3)
    with pytest.raises(AlreadyDecidedError) as caught:
        services.decide(interrupt.pk, "respond", {"seats": 4}, version=3)
    assert (caught.value.decision.version, caught.value.decision.value) == (3, {"seats": 2})


def test_error_for_interrupt_cancelled_after_rejected_response_contains_no_decision(
    booked: Interrupt, advance: Advance
) -> None:
    interrupt = refused(booked, advance)
    services.cancel(Run.objects.get().pk)
    with pytest.raises(AlreadyDecidedError, match="cancelled") as caught:
        services.decide(interrupt.pk, "respond", {"seats": 2})
    assert caught.value.decision is None
    interrupt.refresh_from_db()
    assert interrupt.refused() is None


def test_interrupt_version_with_two_effective_decisions_raises_integrity_error(
    booked: Interrupt, user: Callable[..., User]
) -> None:
    def vote(name: str, *, effective: bool | None) -> Decision:
        return Decision.objects.create(
            interrupt=booked,
            version=1,
            effective=effective,
            type="approve",
            value=True,
            by=user(name),
            by_label=name,
            via="code",
            request_digest="0",
            payload_digest="0",
        )

    vote("ann", effective=None)
    vote("bob", effective=None)
    vote("cat", effective=True)
    for name, effective in (("dan", True), ("eve", False)):
        with pytest.raises(IntegrityError), transaction.atomic():
            vote(name, effective=effective)


def test_interrupt_pending_again_after_rejected_response_is_not_snoozed(
    booked: Interrupt, advance: Advance
) -> None:
    services.snooze(booked.pk, until=now() + timedelta(days=1))
    interrupt = refused(booked, advance)
    assert (interrupt.status, interrupt.snoozed_until) == ("pending", None)
