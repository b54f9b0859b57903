"""Undo of a user's own decision before the run resumes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils.timezone import localdate

from hitl_django import audit, run_leases, services, signals, testing
from hitl_django.contrib.insights.exports import export_decisions
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.reports import review_report
from hitl_django.contrib.links.errors import LinkUnusableError
from hitl_django.contrib.links.services import (
    create_review_link,
    decide_by_link,
    find_undo_by_link,
    resolve_link,
    undo_by_link,
)
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.errors import (
    AlreadyDecidedError,
    InterruptNotFound,
    NotAllowedError,
    RunTimeoutError,
    UndoRefusedError,
)
from hitl_django.management import diagnosis
from hitl_django.models import (
    AuditEntry,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
)
from hitl_django.worker import sweep
from hitl_django.worker.sweeper import find_missed_since
from tests.chaos import invariants
from tests.reading import values_of

from .conftest import asked

Make = Callable[..., User]
Advance = Callable[[], int]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _undoable(advance: Advance, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}


@pytest.fixture
def other(user: Make) -> User:
    return user("ravi", "view_interrupt", "decide_interrupt")


def now(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.select_related("run", "thread").get(pk=interrupt.pk)


def let_time_pass(interrupt: Interrupt) -> None:
    Run.objects.filter(pk=interrupt.run_id).update(resumes_at=Now() - timedelta(seconds=1))


def test_run_decided_by_user_is_queued_only_after_the_undo_period(
    advance: Advance, interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    run = now(interrupt).run
    assert run.state == "interrupted"
    assert run.resumes_at is not None
    assert (services.resume_due(), advance()) == (0, 0)
    let_time_pass(interrupt)
    assert (services.resume_due(), advance()) == (1, 1)
    run = now(interrupt).run
    assert (run.state, run.resumes_at) == ("succeeded", None)
    assert services.resume_due() == 0


def test_sweep_queues_decided_run_after_the_undo_period(
    advance: Advance, interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    sweep()
    assert now(interrupt).run.state == "interrupted"
    let_time_pass(interrupt)
    sweep()
    assert now(interrupt).run.state == "queued"
    testing.run_ids.clear()  # the message is lost, but the row exists
    Run.objects.filter(pk=interrupt.run_id).update(last_message_at=Now() - timedelta(hours=1))
    assert sweep() == [interrupt.run_id]
    assert advance() == 1


def test_decision_without_user_queues_run_immediately_and_cannot_be_undone(
    advance: Advance, interrupt: Interrupt
) -> None:
    made = services.decide(interrupt.pk, "approve")
    assert advance() == 1
    with pytest.raises(UndoRefusedError):
        services.undo(interrupt.pk)
    assert Decision.objects.get(pk=made.id).undone_at is None


def test_decision_with_undo_seconds_zero_queues_run_immediately_and_cannot_be_undone(
    advance: Advance, interrupt: Interrupt, reviewer: User, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 0}
    services.decide(interrupt.pk, "approve", by=reviewer)
    assert services.find_undo(interrupt.pk, by=reviewer) is None
    with pytest.raises(UndoRefusedError, match="the run resumed immediately"):
        services.undo(interrupt.pk, by=reviewer)
    assert advance() == 1


def test_decision_made_before_undo_was_switched_off_can_be_undone(
    interrupt: Interrupt, reviewer: User, settings: Any
) -> None:
    made = services.decide(interrupt.pk, "approve", by=reviewer)
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 0}
    found = services.find_undo(interrupt.pk, by=reviewer)
    assert found is not None
    assert found.decision_id == made.id
    assert "set back" not in str([*diagnosis.examine_installation(audited=False)])
    services.undo(interrupt.pk, by=reviewer)
    assert now(interrupt).status == "pending"


@pytest.mark.promise("P1")
def test_undo_makes_interrupt_pending_again_and_restores_its_stored_writes(
    advance: Advance, interrupt: Interrupt, reviewer: User
) -> None:
    writes = list(PendingWrite.objects.values_list())
    before = now(interrupt)
    made = services.decide(interrupt.pk, "approve", by=reviewer)
    undone = services.undo(interrupt.pk, by=reviewer, via="admin")
    assert (undone.id, undone.complete) == (made.id, False)
    assert undone.undone_at is not None

    open_again = now(interrupt)
    assert (open_again.status, open_again.version, open_again.closed_at) == ("pending", 3, None)
    assert open_again.claimed_by == reviewer
    assert open_again.search_grams == before.search_grams
    assert (open_again.run.state, open_again.run.resumes_at) == ("interrupted", None)
    assert list(PendingWrite.objects.values_list()) == writes
    assert open_again.closing() is None
    assert services.resume_due() == 0
    assert invariants.faults([interrupt.thread_id]) == []

    services.decide(interrupt.pk, "reject", by=reviewer, version=3)
    let_time_pass(interrupt)
    services.resume_due()
    assert advance() == 1
    assert now(interrupt).run.state == "succeeded"
    assert [(row.type, row.effective) for row in Decision.objects.order_by("created_at")] == [
        ("approve", None),
        ("reject", True),
    ]


def test_undo_writes_audit_entry_sends_signal_and_creates_webhook_delivery(
    interrupt: Interrupt, reviewer: User, django_capture_on_commit_callbacks: Any
) -> None:
    webhook = webhook_services.create_webhook("https://shop.example/hook")
    heard: list[Any] = []

    def hear(decision: Any, **kwargs: Any) -> None:
        heard.append(decision)

    signals.decision_undone.connect(hear)
    try:
        made = services.decide(interrupt.pk, "approve", by=reviewer)
        with django_capture_on_commit_callbacks(execute=True):
            services.undo(interrupt.pk, by=reviewer, via="api")
    finally:
        signals.decision_undone.disconnect(hear)
    assert [one.id for one in heard] == [made.id]
    thread = Thread.objects.get(pk=interrupt.thread_id)
    assert audit.find_first_fault(thread) is None
    entry = AuditEntry.objects.filter(thread=thread).latest("seq")
    assert (entry.verb, entry.actor, entry.via) == ("undo", reviewer, "api")
    assert entry.subject == str(interrupt.pk)
    assert entry.detail["decision"] == str(made.id)
    sent = Delivery.objects.filter(endpoint=webhook.id).order_by("created_at", "id")
    assert [row.event for row in sent] == ["interrupt.decided", "interrupt.undone"]
    assert {row.data["decision_id"] for row in sent} == {str(made.id)}


def test_undone_decision_is_excluded_from_report_export_stats_and_history(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    services.undo(interrupt.pk, by=reviewer)
    today = localdate()
    period = services.Period.build(today - timedelta(days=1), today + timedelta(days=1))
    assert review_report(None, period).decided == 0
    assert list(export_decisions(None, period)) == []
    assert services.review_stats(None).median_seconds is None
    history = services.thread_history(interrupt.thread.thread_id)
    assert [made for step in history.steps for made in step.decisions] == []


def test_undo_deletes_spot_check_of_the_undone_decision(
    interrupt: Interrupt, reviewer: User
) -> None:
    made = services.decide(interrupt.pk, "approve", by=reviewer)
    SpotCheck.objects.create(interrupt=interrupt, decision_id=made.id)
    services.undo(interrupt.pk, by=reviewer)
    assert not SpotCheck.objects.exists()


def test_undo_is_allowed_only_for_deciding_user_and_superuser(
    interrupt: Interrupt, reviewer: User, other: User, user: Make, unchanged: Callable[..., None]
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    unchanged()
    with pytest.raises(NotAllowedError):
        services.undo(interrupt.pk, by=other)
    with pytest.raises(InterruptNotFound):
        services.undo(interrupt.pk, by=user("blind"))
    unchanged(refused=1)
    assert services.find_undo(interrupt.pk, by=other) is None
    admin = User.objects.create_superuser("admin")
    services.undo(interrupt.pk, by=admin)
    assert now(interrupt).status == "pending"
    assert now(interrupt).claimed_by is None


def test_undo_by_deciding_user_without_decide_permission_raises_not_allowed_error(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    reviewer.user_permissions.remove(*reviewer.user_permissions.filter(codename="decide_interrupt"))
    with pytest.raises(NotAllowedError):
        services.undo(interrupt.pk, by=User.objects.get(pk=reviewer.pk))


def test_undo_after_the_undo_period_raises_undo_refused_error(
    interrupt: Interrupt, reviewer: User, unchanged: Callable[..., None]
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    found = services.find_undo(interrupt.pk, by=reviewer)
    assert found is not None
    assert found.until == now(interrupt).run.resumes_at
    let_time_pass(interrupt)
    unchanged()
    assert services.find_undo(interrupt.pk, by=reviewer) is None
    with pytest.raises(UndoRefusedError, match="time"):
        services.undo(interrupt.pk, by=reviewer)
    unchanged()


@pytest.mark.parametrize("claimed", [False, True])
def test_undo_after_run_resumed_raises_undo_refused_error(
    interrupt: Interrupt, reviewer: User, unchanged: Callable[..., None], claimed: bool
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    let_time_pass(interrupt)
    services.resume_due()
    if claimed:
        assert run_leases.claim(interrupt.run_id) is not None
    unchanged()
    with pytest.raises(UndoRefusedError, match="the run has resumed"):
        services.undo(interrupt.pk, by=reviewer)
    unchanged()


def test_undo_of_decision_after_which_the_run_resumed_and_paused_again_raises_undo_refused_error(
    advance: Advance, reviewer: User, settings: Any
) -> None:
    first = asked("interview", {}, advance)
    services.decide(first.pk, "approve", by=reviewer)
    let_time_pass(first)
    services.resume_due()
    advance()
    second = Interrupt.objects.get(run=first.run_id, status="pending")
    services.decide(second.pk, "approve", by=reviewer)
    with pytest.raises(UndoRefusedError, match="the run has resumed"):
        services.undo(first.pk, by=reviewer)
    services.undo(second.pk, by=reviewer)


def test_undo_of_pending_or_cancelled_interrupt_raises_undo_refused_error(
    interrupt: Interrupt, reviewer: User, unchanged: Callable[..., None]
) -> None:
    unchanged()
    with pytest.raises(UndoRefusedError, match="no decision"):
        services.undo(interrupt.pk, by=reviewer)
    unchanged()
    services.cancel(interrupt.run_id)
    with pytest.raises(UndoRefusedError, match="no decision"):
        services.undo(interrupt.pk, by=reviewer)


def test_undo_with_id_of_an_already_undone_decision_raises_undo_refused_error(
    interrupt: Interrupt, reviewer: User
) -> None:
    first = services.decide(interrupt.pk, "approve", by=reviewer)
    services.undo(interrupt.pk, by=reviewer, decision_id=first.id)
    second = services.decide(interrupt.pk, "reject", by=reviewer)
    with pytest.raises(UndoRefusedError):
        services.undo(interrupt.pk, by=reviewer, decision_id=first.id)
    services.undo(interrupt.pk, by=reviewer, decision_id=str(second.id))


def test_undo_of_decision_on_cancelled_run_raises_undo_refused_error(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    services.cancel(interrupt.run_id)
    with pytest.raises(UndoRefusedError):
        services.undo(interrupt.pk, by=reviewer)
    let_time_pass(interrupt)
    assert services.resume_due() == 0


def test_decide_with_key_of_undone_decision_returns_that_decision(
    interrupt: Interrupt, reviewer: User
) -> None:
    made = services.decide(interrupt.pk, "approve", by=reviewer, key="k")
    services.undo(interrupt.pk, by=reviewer)
    again = services.decide(interrupt.pk, "approve", by=reviewer, key="k")
    assert (again.id, again.repeated) == (made.id, True)
    assert again.undone_at is not None
    assert now(interrupt).status == "pending"


def open_ones(run_id: Any) -> list[Interrupt]:
    return list(Interrupt.objects.filter(run=run_id, status="pending").order_by("title"))


def answered(run_id: Any) -> Any:
    run = Run.objects.get(pk=run_id)
    assert run.state == "succeeded"
    return values_of(run.thread)["answers"]


def test_run_with_two_responses_resumes_at_end_of_the_latest_undo_period(
    advance: Advance, reviewer: User
) -> None:
    left, right = open_ones(asked("panel", {}, advance).run_id)
    services.decide(left.pk, "respond", "a", by=reviewer)
    first = now(left).run.resumes_at
    services.decide(right.pk, "respond", "b", by=reviewer)
    latest = now(left).run.resumes_at
    assert first is not None
    assert latest is not None
    assert latest > first
    services.undo(right.pk, by=reviewer)
    assert now(left).run.resumes_at == latest  # the other response is available to resume the run
    services.undo(left.pk, by=reviewer)
    assert now(left).run.resumes_at is None
    assert [row.status for row in map(now, (left, right))] == ["pending", "pending"]


def test_undo_of_one_parallel_response_preserves_the_second_response(
    advance: Advance, reviewer: User
) -> None:
    left, right = open_ones(asked("panel", {}, advance).run_id)
    services.decide(left.pk, "respond", "a", by=reviewer)
    services.decide(right.pk, "respond", "b", by=reviewer)
    services.undo(left.pk, by=reviewer)
    let_time_pass(left)
    assert services.resume_due() == 1
    advance()
    assert [row.pk for row in open_ones(left.run_id)] == [left.pk]
    services.decide(left.pk, "respond", "c", by=reviewer)
    let_time_pass(left)
    services.resume_due()
    advance()
    assert sorted(answered(left.run_id)) == [("left", "c"), ("right", "b")]


def test_response_can_be_undone_while_run_waits_for_responses_to_all_interrupts(
    advance: Advance, reviewer: User
) -> None:
    interrupts = open_ones(asked("jury", {}, advance).run_id)
    for interrupt in interrupts[:4]:
        services.decide(interrupt.pk, "respond", "x", by=reviewer)
    assert now(interrupts[0]).run.resumes_at is None
    found = services.find_undo(interrupts[0].pk, by=reviewer)
    assert found is not None
    assert found.until is None
    services.decide(interrupts[4].pk, "respond", "x", by=reviewer)
    services.undo(interrupts[0].pk, by=reviewer)
    assert now(interrupts[0]).run.resumes_at is None
    services.decide(interrupts[0].pk, "respond", "y", by=reviewer)
    let_time_pass(interrupts[0])
    services.resume_due()
    advance()
    assert sorted(answered(interrupts[0].run_id)) == [
        ("a", "y"),
        *((name, "x") for name in ("b", "c", "d", "e")),
    ]


def test_undo_of_one_response_preserves_parallel_response_given_without_user(
    advance: Advance, reviewer: User
) -> None:
    left, right = open_ones(asked("panel", {}, advance).run_id)
    services.decide(left.pk, "respond", "a", by=reviewer)
    services.decide(right.pk, "respond", "b")
    assert now(left).run.state == "interrupted"
    services.undo(left.pk, by=reviewer)
    let_time_pass(left)
    assert services.resume_due() == 1
    advance()
    assert [row.pk for row in open_ones(left.run_id)] == [left.pk]


def test_interrupt_does_not_expire_while_decision_on_parallel_interrupt_can_be_undone(
    advance: Advance, reviewer: User
) -> None:
    left, right = open_ones(asked("panel", {}, advance).run_id)
    Interrupt.objects.filter(pk=right.pk).update(
        expires_at=Now() - timedelta(seconds=1),
        expiry={"seconds": 1, "then": "answer", "answer": "late"},
    )
    services.decide(left.pk, "respond", "a", by=reviewer)
    assert services.expire_due() == 0
    services.undo(left.pk, by=reviewer)
    assert services.expire_due() == 1
    assert now(right).status == "expired"
    with pytest.raises(UndoRefusedError):
        services.undo(right.pk)


@pytest.mark.parametrize("graph", ["interview", "keyed"])
def test_undo_preserves_stored_responses_to_earlier_interrupts_of_the_node(
    advance: Advance, reviewer: User, graph: str
) -> None:
    first = asked(graph, {}, advance)
    services.decide(first.pk, "respond", "one", by=reviewer)
    let_time_pass(first)
    services.resume_due()
    advance()
    second = open_ones(first.run_id)[0]
    before = sorted(map(str, PendingWrite.objects.values_list("task_id", "slot", "data")))
    services.decide(second.pk, "respond", "two", by=reviewer)
    services.undo(second.pk, by=reviewer)
    after = sorted(map(str, PendingWrite.objects.values_list("task_id", "slot", "data")))
    assert after == before
    assert invariants.faults([first.thread_id]) == []


def test_undo_of_approved_breakpoint_makes_run_stop_at_breakpoint_again(
    advance: Advance, reviewer: User
) -> None:
    stop = asked("gated", {"text": "x"}, advance)
    services.decide(stop.pk, "approve", by=reviewer)
    services.undo(stop.pk, by=reviewer)
    assert not PendingWrite.objects.filter(thread=stop.thread_id).exists()
    services.decide(stop.pk, "approve", by=reviewer)
    let_time_pass(stop)
    services.resume_due()
    advance()
    assert now(stop).run.state == "succeeded"


def test_responses_to_two_interrupts_of_one_task_are_undone_separately(
    advance: Advance, reviewer: User
) -> None:
    ann, bob = open_ones(asked("essay", {"topic": "t"}, advance).run_id)
    services.decide(ann.pk, "respond", "a", by=reviewer)
    services.decide(bob.pk, "respond", "b", by=reviewer)
    services.undo(ann.pk, by=reviewer)
    services.decide(ann.pk, "respond", "c", by=reviewer)
    let_time_pass(ann)
    services.resume_due()
    advance()
    run = now(ann).run
    assert run.state == "succeeded"
    assert "c" in str(services.run_result(run.pk))
    assert invariants.faults([ann.thread_id]) == []


def test_undo_of_last_required_approval_preserves_approvals_of_other_users(
    advance: Advance, reviewer: User, other: User
) -> None:
    given = {"payload": {"amount": 5}, "terms": {"quorum": 2}}
    interrupt = asked("reviewed", given, advance)
    services.decide(interrupt.pk, "approve", by=other)
    services.decide(interrupt.pk, "approve", by=reviewer)
    services.undo(interrupt.pk, by=reviewer)
    assert (now(interrupt).approvals, now(interrupt).status) == (1, "pending")
    assert invariants.faults([interrupt.thread_id]) == []
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve", by=other)
    made = services.decide(interrupt.pk, "approve", by=reviewer)
    assert (made.complete, made.approvals) == (True, 2)


def test_undo_of_rejection_preserves_earlier_approval_by_the_same_user(
    advance: Advance, reviewer: User, other: User
) -> None:
    given = {"payload": {"amount": 5}, "terms": {"quorum": 2}}
    interrupt = asked("reviewed", given, advance)
    services.decide(interrupt.pk, "approve", by=reviewer)
    services.decide(interrupt.pk, "reject", by=reviewer)
    services.undo(interrupt.pk, by=reviewer)
    services.decide(interrupt.pk, "reject", by=reviewer)
    services.undo(interrupt.pk, by=reviewer)
    made = services.decide(interrupt.pk, "approve", by=other)
    assert made.complete
    assert invariants.faults([interrupt.thread_id]) == []


def test_undo_of_edit_restores_the_original_payload(advance: Advance, reviewer: User) -> None:
    interrupt = asked("plain", {"payload": {"amount": 5}}, advance)
    services.decide(interrupt.pk, "edit", {"amount": 6}, by=reviewer)
    services.undo(interrupt.pk, by=reviewer)
    assert now(interrupt).payload == {"amount": 5}
    assert now(interrupt).payload_digest == interrupt.payload_digest


def test_undo_of_approval_below_quorum_raises_undo_refused_error(
    advance: Advance, reviewer: User
) -> None:
    interrupt = asked("reviewed", {"payload": {}, "terms": {"quorum": 2}}, advance)
    services.decide(interrupt.pk, "approve", by=reviewer)
    with pytest.raises(UndoRefusedError, match="no decision"):
        services.undo(interrupt.pk, by=reviewer)


def test_review_link_can_be_used_again_after_its_decision_is_undone(
    interrupt: Interrupt, settings: Any
) -> None:
    used, unused = (create_review_link(interrupt.pk, name=name) for name in ("Dana", "Eli"))
    token, other_token = (link.url.rstrip("/").rsplit("/", 1)[1] for link in (used, unused))
    with pytest.raises(UndoRefusedError):
        undo_by_link(token)
    decide_by_link(token, "approve")
    assert find_undo_by_link(token) is not None
    assert find_undo_by_link(other_token) is None
    with pytest.raises(UndoRefusedError):
        undo_by_link(other_token)
    undo_by_link(token)
    entry = AuditEntry.objects.latest("seq", "id")
    assert (entry.verb, entry.actor_label, entry.via) == ("undo", "Dana", "link")
    assert {resolve_link(one).state for one in (token, other_token)} == {"open"}
    decide_by_link(other_token, "reject")
    assert resolve_link(token).state == "decided"
    with pytest.raises(UndoRefusedError):
        undo_by_link(token)


def test_undo_by_link_of_inactive_creator_raises_link_unusable_error(
    interrupt: Interrupt, user: Make
) -> None:
    maker = user("olga", "view_interrupt", "decide_interrupt", "link_interrupt")
    link = create_review_link(interrupt.pk, name="Dana", by=maker)
    token = link.url.rstrip("/").rsplit("/", 1)[1]
    decide_by_link(token, "approve")
    maker.is_active = False
    maker.save()
    with pytest.raises(LinkUnusableError):
        undo_by_link(token)


def test_start_and_wait_for_a_decided_run_does_not_return_before_the_undo_period_ends(
    advance: Advance, reviewer: User
) -> None:
    run = services.start("approval", {"text": "x"}, key="k")
    advance()
    services.decide(Interrupt.objects.get(run=run.id).pk, "approve", by=reviewer)
    with pytest.raises(RunTimeoutError):
        services.start_and_wait("approval", {"text": "x"}, key="k", timeout=0)


def test_find_missed_since_reports_run_whose_undo_period_ended_an_hour_ago(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    assert find_missed_since() is None
    Run.objects.filter(pk=interrupt.run_id).update(resumes_at=Now() - timedelta(hours=1))
    assert find_missed_since() is not None
