"""Expired interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Now

from hitl_django import Expiry, services, signals
from hitl_django.audit import entries
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.errors import AlreadyDecidedError, RunStateError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, RunEvent, Thread
from hitl_django.services.reviews import expire
from hitl_django.task_queue import dispatcher
from hitl_django.worker.sweeper import sweep
from tests import graphs
from tests.chaos import invariants
from tests.reading import values_of

from .conftest import asked

Advance = Callable[[], int]
DAY = timedelta(days=1)


@pytest.fixture
def interrupt(advance: Advance) -> Iterator[Callable[..., Interrupt]]:
    def ask(*terms: Any) -> Interrupt:
        graphs.PATIENCE[:] = [Expiry(*terms)]
        return asked("patient", {"log": []}, advance)

    yield ask
    graphs.PATIENCE.clear()


def pass_(time: timedelta) -> None:
    moments = ("expires_at", "retry_at", "created_at")
    Interrupt.objects.update(**{moment: F(moment) - time for moment in moments})


def again(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=interrupt.pk)


def test_interrupt_expires_at_expiry_time_of_database_clock(
    interrupt: Callable[..., Interrupt], advance: Advance
) -> None:
    row = interrupt(DAY)
    assert timedelta(0) <= row.expires_at - row.created_at - DAY < timedelta(minutes=1)
    pass_(DAY - timedelta(minutes=1))
    sweep()
    assert again(row).status == "pending"
    pass_(timedelta(minutes=1))
    sweep()
    assert again(row).status == "expired"


@pytest.mark.promise("P20")
def test_default_response_at_expiry_is_stored_by_system_and_finishes_the_run(
    interrupt: Callable[..., Interrupt],
    advance: Advance,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    told: list[tuple[str, str]] = []

    def listen(interrupt_id: str, then: str, **kwargs: object) -> None:
        told.append((interrupt_id, then))

    signals.interrupt_expired.connect(listen)
    row = interrupt(DAY, "answer", {"seats": 8})
    pass_(DAY)
    with django_capture_on_commit_callbacks(execute=True):
        sweep()
    assert told == [(str(row.pk), "answer")]
    row = again(row)
    assert (row.status, row.version, row.closed_at is None) == ("expired", 2, False)
    decision = Decision.objects.get()
    assert (decision.type, decision.by, decision.by_label) == ("expire", None, "system")
    assert (decision.via, decision.value) == ("timeout", {"seats": 8})
    entry = AuditEntry.objects.get(verb="expire")
    assert (entry.actor_label, entry.via, entry.subject) == ("system", "timeout", str(row.pk))
    assert advance() == 1
    assert Run.objects.get().state == "succeeded"
    assert values_of(row.thread)["answers"] == [8]
    assert invariants.faults() == []
    sweep()
    assert Decision.objects.count() == 1


def test_interrupt_of_run_parked_by_expiry_is_pending_again_after_retry(
    interrupt: Callable[..., Interrupt],
    advance: Advance,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    row = interrupt(DAY)
    pass_(DAY)
    told: list[tuple[str, str]] = []

    def hear(run_id: str, state: str, **kwargs: object) -> None:
        told.append((run_id, state))

    signals.run_failed.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        sweep()
    run = Run.objects.get()
    assert told == [(str(run.pk), "parked")]
    assert (run.state, run.error) == (
        "parked",
        "The interrupt 'How many?' expired without a decision.",
    )
    assert advance() == 0
    services.retry(run.pk)
    advance()
    row = again(row)
    assert (row.status, row.version, Run.objects.get().state) == ("pending", 3, "interrupted")
    pass_(DAY - timedelta(minutes=1))
    sweep()
    assert again(row).status == "pending"
    services.decide(row.pk, "respond", {"seats": 2}, version=3)
    advance()
    assert values_of(row.thread)["answers"] == [2]


def test_interrupt_expired_with_action_cancel_cancels_the_run(
    interrupt: Callable[..., Interrupt], advance: Advance
) -> None:
    row = interrupt(DAY, "cancel")
    pass_(DAY)
    sweep()
    assert (again(row).status, Run.objects.get().state) == ("expired", "cancelled")


@pytest.mark.promise("P1")
def test_interrupt_decided_before_sweep_does_not_expire_and_expired_interrupt_rejects_decision(
    interrupt: Callable[..., Interrupt], advance: Advance, reviewer: User
) -> None:
    late = interrupt(DAY, "answer", {"seats": 8})
    pass_(DAY)
    services.decide(late.pk, "respond", {"seats": 2}, by=reviewer)
    assert services.expire_due() == 0
    assert again(late).status == "decided"

    early = asked("patient", {"log": []}, advance)
    pass_(DAY)
    assert services.expire_due() == 1
    with pytest.raises(AlreadyDecidedError, match="expired") as caught:
        services.decide(early.pk, "respond", {"seats": 2}, by=reviewer)
    assert caught.value.status == "expired"


def test_interrupt_of_running_run_expires_only_after_the_run_pauses(
    interrupt: Callable[..., Interrupt], advance: Advance
) -> None:
    row = interrupt(DAY)
    pass_(DAY)
    Run.objects.update(state="running")
    assert services.expire_due() == 0
    Run.objects.update(state="interrupted")
    assert services.expire_due() == 1
    assert again(row).status == "expired"


def test_failed_expiry_of_one_interrupt_does_not_block_expiry_of_the_next(
    interrupt: Callable[..., Interrupt],
    advance: Advance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = interrupt(DAY)
    second = asked("patient", {"log": []}, advance)
    pass_(DAY)
    make = entries.make_entry

    def broken(thread: Thread, *args: Any, **kwargs: Any) -> AuditEntry:
        if thread.pk == first.thread_id:
            raise RuntimeError("no more room")
        return make(thread, *args, **kwargs)

    monkeypatch.setattr(entries, "make_entry", broken)
    assert services.expire_due() == 1
    assert f"interrupt {first.pk}: could not process its expires_at" in caplog.text
    assert (again(first).status, again(second).status) == ("pending", "expired")
    assert Run.objects.get(pk=first.run_id).state == "interrupted"


def test_repeatedly_failing_expiry_does_not_fill_the_batch_of_the_sweep(
    interrupt: Callable[..., Interrupt],
    advance: Advance,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:
    settings.HITL = {**settings.HITL, "SWEEP_BATCH": 1}
    first = interrupt(DAY)
    Interrupt.objects.update(expiry={"seconds": 86400, "then": "cancel"})
    second = asked("patient", {"log": []}, advance)
    pass_(DAY)

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no more room")

    monkeypatch.setattr(expire, "cancel_run", broken)
    until = again(first).expires_at
    assert [services.expire_due() for _ in range(2)] == [0, 1]
    assert again(first).expires_at == until  # the version that the reviewer has seen
    assert (again(first).status, again(second).status) == ("pending", "expired")
    monkeypatch.undo()
    assert services.expire_due() == 0
    pass_(timedelta(minutes=5))
    assert services.expire_due() == 1
    assert again(first).status == "expired"


def test_default_response_rejected_by_node_is_not_given_again_and_run_is_parked(
    interrupt: Callable[..., Interrupt], advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = interrupt(DAY, "answer", {"seats": 8})
    Interrupt.objects.update(expiry={"seconds": 86400, "then": "answer", "answer": {"seats": 3}})
    pass_(DAY)
    sweep()
    advance()
    row = again(row)
    assert (row.status, row.then) == ("pending", "park")
    assert "pairs" in row.refused().refusal
    pass_(DAY)
    sweep()
    assert Run.objects.get().state == "parked"


def test_default_response_failing_its_schema_fails_the_interrupting_node(advance: Advance) -> None:
    graphs.PATIENCE[:] = [Expiry(DAY, "answer", {"seats": 3})]
    info = services.start("patient", {"log": []})
    advance()
    graphs.PATIENCE.clear()
    assert "seats are sold in pairs" in Run.objects.get(pk=info.id).error
    assert not Interrupt.objects.exists()


@pytest.mark.parametrize(
    "terms", [(timedelta(0),), (-DAY,), (DAY, "shrug"), (DAY, "park", True)], ids=str
)
def test_expiry_with_invalid_time_or_action_raises_value_error(terms: Any) -> None:
    with pytest.raises(ValueError):
        Expiry(*terms)


def test_parallel_interrupt_of_run_parked_by_expiry_stays_pending_after_retry(
    advance: Advance, reviewer: User
) -> None:
    late, other = asked("panel", {}, advance), Interrupt.objects.order_by("task_path").last()
    assert other is not None
    terms = {"seconds": 60, "then": "park"}
    Interrupt.objects.filter(pk=late.pk).update(expires_at=Now() - DAY, expiry=terms)
    sweep()
    for act in (services.decide, services.check_answer):
        with pytest.raises(RunStateError, match=r"parked\. Retry it before deciding the interrupt"):
            act(other.pk, "respond", "yes", by=reviewer)
    assert services.claim_next(by=reviewer) is None
    counts = services.queue_counts(reviewer)
    assert (counts.unclaimed, counts.pending) == (0, 1)

    services.retry(late.run_id)
    services.decide(other.pk, "respond", "yes", by=reviewer, version=other.version)
    advance()
    assert [again(other).status, again(late).status] == ["decided", "pending"]
    services.decide(late.pk, "respond", "too", by=reviewer)
    advance()
    assert Run.objects.get().state == "succeeded"
    assert invariants.faults() == []


@pytest.mark.promise("P20")
@pytest.mark.parametrize(
    ("then", "state", "told"),
    [
        ("park", "parked", {"interrupt.created", "interrupt.expired", "run.parked"}),
        ("cancel", "cancelled", {"interrupt.created", "interrupt.expired", "run.cancelled"}),
        ("keep", "interrupted", {"interrupt.created", "interrupt.expired"}),
    ],
)
def test_expiry_creates_webhook_deliveries_audit_entry_and_run_event(
    interrupt: Callable[..., Interrupt], then: str, state: str, told: set[str]
) -> None:
    webhook_services.create_webhook("https://example.com/")
    row = interrupt(DAY, then)
    pass_(DAY)
    sweep()
    assert set(Delivery.objects.values_list("event", flat=True)) == told
    message = Delivery.objects.get(event="interrupt.expired")
    assert message.data == {
        "interrupt_id": str(row.pk),
        "digest": row.payload_digest,
        "run_id": str(row.run_id),
        "thread_id": row.thread.thread_id,
        "graph": "patient",
    }
    entry = AuditEntry.objects.get(verb="expire")
    assert (entry.subject, entry.detail["type"]) == (str(row.pk), then)
    assert (entry.detail["payload_digest"], entry.detail["version"]) == (row.payload_digest, 1)
    last = RunEvent.objects.order_by("seq").last()
    assert last is not None
    assert last.kind == state
    assert (Run.objects.get().state, Run.objects.get().traceback) == (state, "")


def test_default_response_to_one_interrupt_does_not_queue_run_waiting_for_all_responses(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start("jury", {"log": []})
    advance()
    hinted: list[Any] = []
    monkeypatch.setattr(dispatcher, "enqueue", lambda run_id, *_: hinted.append(run_id))
    terms = {"seconds": 1, "then": "answer", "answer": "yes"}
    first, *others = Interrupt.objects.values_list("pk", flat=True)
    for due, state, hints in (([first], "interrupted", 0), (others, "queued", 1)):
        Interrupt.objects.filter(pk__in=due).update(expiry=terms, expires_at=Now() - DAY)
        assert services.expire_due() == len(due)
        assert (Run.objects.get().state, len(hinted)) == (state, hints)


def test_expiry_with_action_keep_writes_audit_entry_without_group(advance: Advance) -> None:
    asked("approval", {"text": "x"}, advance)
    terms = {"seconds": 1, "then": "keep"}
    Interrupt.objects.update(expiry=terms, expires_at=Now() - DAY)
    assert services.expire_due() == 1
    assert "group" not in AuditEntry.objects.get(verb="expire").detail
