"""cancel and retry, with all transitions of the state machine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from hitl_django import services, signals
from hitl_django.errors import AlreadyDecidedError, NotAllowedError, RunNotFound, RunStateError
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from tests import graphs

State = Run.State
Advance = Callable[[], int]
Unchanged = Callable[..., None]


@pytest.fixture
def failing() -> Iterator[None]:
    graphs.FAILING.add("yes")
    yield
    graphs.FAILING.clear()


def in_state(state: str) -> Run:
    info = services.start("steps", {"log": []})
    Run.objects.filter(pk=info.id).update(state=state)
    return Run.objects.get(pk=info.id)


@pytest.mark.parametrize("state", State.values)
def test_cancel_in_each_run_state_cancels_or_raises_run_state_error(
    advance: Advance, unchanged: Unchanged, state: str
) -> None:
    run = in_state(state)
    unchanged()
    if State.CANCELLED in Run.TRANSITIONS[State(state)]:
        info = services.cancel(run.pk, reason="no longer wanted")
        assert info.state == "cancelled"
        entry = AuditEntry.objects.get(verb="cancel")
        assert (entry.detail["from"], entry.detail["reason"]) == (state, "no longer wanted")
    else:
        with pytest.raises(RunStateError) as caught:
            services.cancel(run.pk)
        assert caught.value.state == state
        unchanged()


@pytest.mark.parametrize("state", State.values)
def test_retry_queues_failed_or_parked_run_and_raises_run_state_error_in_any_other_state(
    advance: Advance, unchanged: Unchanged, state: str
) -> None:
    run = in_state(state)
    unchanged()
    if state in (State.FAILED, State.PARKED):
        assert services.retry(run.pk).state == "queued"
        assert AuditEntry.objects.get(verb="retry").detail["from"] == state
    else:
        with pytest.raises(RunStateError) as caught:
            services.retry(run.pk)
        assert (caught.value.state, caught.value.allowed) == (state, ("failed", "parked"))
        unchanged()


@pytest.mark.parametrize("state", State.values)
def test_decision_queues_interrupted_run_and_raises_run_state_error_for_stopped_run(
    advance: Advance, state: str
) -> None:
    info = services.start("approval", {"text": "x"})
    advance()
    interrupt = Interrupt.objects.get()
    Run.objects.filter(pk=info.id).update(state=state)
    if state in (State.INTERRUPTED, State.QUEUED, State.RUNNING):
        services.decide(interrupt.pk, "approve")
        expected = "running" if state == State.RUNNING else "queued"
        assert Run.objects.get().state == expected
    else:
        with pytest.raises(RunStateError):
            services.decide(interrupt.pk, "approve")
        assert Run.objects.get().state == state


def test_run_state_constraint_rejects_unknown_state_and_transitions_include_all_states(
    advance: Advance,
) -> None:
    run = in_state("queued")
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(state="paused")
    assert set(Run.TRANSITIONS) == set(State)
    assert set(Run.ACTIVE) == {"queued", "running", "interrupted", "parked"}


def test_second_active_run_of_one_thread_raises_integrity_error(advance: Advance) -> None:
    run = in_state("queued")
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.create(thread=run.thread, graph="steps")
    Run.objects.create(thread=run.thread, graph="steps", state="failed")


def test_cancel_of_failed_run_does_not_end_thread_of_the_active_run(
    advance: Advance,
) -> None:
    failed = in_state("failed")
    Run.objects.create(thread=failed.thread, graph="steps")
    Thread.objects.update(attempts=2, ended_at=None)
    services.cancel(failed.pk)
    thread = Thread.objects.get()
    assert (thread.attempts, thread.ended_at) == (2, None)


def test_cancel_withdraws_pending_interrupts_of_the_run(advance: Advance) -> None:
    info = services.start("panel", {"log": []})
    advance()
    services.cancel(info.id)
    assert set(Interrupt.objects.values_list("status", flat=True)) == {"cancelled"}
    for interrupt in Interrupt.objects.all():
        assert interrupt.closed_at is not None
        with pytest.raises(AlreadyDecidedError, match="cancelled"):
            services.decide(interrupt.pk, "approve")
    assert advance() == 0


def test_run_cancelled_signal_is_sent_after_commit(
    advance: Advance, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    told: list[tuple[str, ...]] = []

    def hear(run_id: str, thread_id: str, graph: str, state: str, **kwargs: object) -> None:
        told.append((run_id, thread_id, graph, state))

    info = services.start("panel", {"log": []})
    advance()
    signals.run_cancelled.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        services.cancel(info.id)
        assert told == []
    assert told == [(str(info.id), info.thread_id, "panel", "cancelled")]


@pytest.mark.promise("P11")
def test_cancel_audit_entry_lists_withdrawn_interrupts_sorted(advance: Advance) -> None:
    run = services.start("jury", {"log": []})
    advance()
    services.cancel(run.id)
    interrupts = AuditEntry.objects.get(verb="cancel").detail["interrupts"]
    assert len(interrupts) == 5
    assert interrupts == sorted(interrupts)


def test_cancel_resets_attempts_so_that_next_run_of_thread_succeeds(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    Thread.objects.update(attempts=5)
    services.cancel(info.id)
    services.start("steps", {"log": []}, thread_id=info.thread_id)
    advance()
    assert sorted(Run.objects.values_list("state", flat=True)) == ["cancelled", "succeeded"]


@pytest.mark.promise("P10")
def test_cancel_of_running_run_invalidates_the_lease_of_its_worker(advance: Advance) -> None:
    from hitl_django import run_leases
    from hitl_django.checkpoints import DjangoSaver
    from hitl_django.engine.savers.checkpoint import Commit, Outcome
    from hitl_django.errors import LeaseLostError
    from hitl_django.run_leases import RunFence

    info = services.start("steps", {"log": []})
    lease = run_leases.claim(info.id)
    assert lease is not None
    services.cancel(info.id)
    saver = DjangoSaver(lease.thread, RunFence(lease))
    place = {"configurable": {"thread_id": info.thread_id}}
    with pytest.raises(LeaseLostError):
        saver.commit(Commit(place, outcome=Outcome("finished")))
    assert not lease.thread.renew()
    assert Run.objects.get().state == "cancelled"


def test_retry_of_failed_run_succeeds_and_clears_error_and_traceback(
    advance: Advance, failing: None
) -> None:
    info = services.start("fragile", {"count": 1})
    advance()
    run = Run.objects.get()
    assert run.state == "failed"
    assert run.error == "RuntimeError: the printer is on fire"
    assert "the printer is on fire" in run.traceback
    assert run.finished_at is not None

    graphs.FAILING.clear()
    services.retry(info.id)
    advance()
    run.refresh_from_db()
    assert (run.state, run.error, run.traceback) == ("succeeded", "", "")


@pytest.mark.promise("P11")
def test_retry_of_parked_run_resets_attempts_of_its_thread(advance: Advance) -> None:
    run = in_state("parked")
    Thread.objects.update(attempts=5)
    services.retry(run.pk)
    assert Thread.objects.get().attempts == 0
    advance()
    assert Run.objects.get().state == "succeeded"


def test_retry_clears_ended_at_of_its_thread(advance: Advance, failing: None) -> None:
    run = services.start("fragile", {"count": 1}, thread_id="t")
    advance()
    assert Thread.objects.get().ended_at is not None
    services.retry(run.id)
    assert Thread.objects.get().ended_at is None


def test_fork_clears_ended_at_of_its_thread(advance: Advance) -> None:
    services.start("steps", {"log": []}, thread_id="t")
    advance()
    assert Thread.objects.get().ended_at is not None
    services.fork("t", Checkpoint.objects.latest("checkpoint_id").checkpoint_id)
    assert Thread.objects.get().ended_at is None


def test_retry_of_run_followed_by_newer_run_raises_run_state_error_naming_the_newer_run(
    advance: Advance, failing: None, unchanged: Unchanged
) -> None:
    old = services.start("fragile", {"count": 1}, thread_id="t")
    advance()
    graphs.FAILING.clear()
    new = services.start("fragile", {"count": 5}, thread_id="t")
    advance()
    unchanged()
    with pytest.raises(RunStateError, match=str(new.id)):
        services.retry(old.id)
    unchanged()


@pytest.mark.parametrize("bad", ["", "x", uuid.uuid4(), None, 7])
def test_cancel_and_retry_of_unknown_run_id_raise_run_not_found(bad: Any, advance: Advance) -> None:
    for verb in (services.cancel, services.retry):
        with pytest.raises(RunNotFound):
            verb(bad)


@pytest.mark.promise("P18")
def test_cancel_and_retry_without_permission_raise_not_found_or_not_allowed_error(
    advance: Advance, user: Callable[..., User], unchanged: Unchanged
) -> None:
    run = in_state("parked")
    blind, watcher = user("una", "operate_run"), user("wim", "view_run")
    operator = user("opa", "view_run", "operate_run")
    unchanged()
    for verb in (services.cancel, services.retry):
        with pytest.raises(RunNotFound):
            verb(run.pk, by=blind)
        with pytest.raises(NotAllowedError):
            verb(run.pk, by=watcher)
    unchanged(refused=2)
    services.retry(run.pk, by=operator, via="admin")
    services.cancel(run.pk, by=operator, via="admin")
    assert list(AuditEntry.objects.order_by("seq").values_list("verb", "actor_label", "via")) == [
        ("start", "system", "code"),
        ("refuse", "wim", "code"),
        ("refuse", "wim", "code"),
        ("retry", "opa", "admin"),
        ("cancel", "opa", "admin"),
    ]
