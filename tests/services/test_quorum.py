"""Approvals by several people: votes, proposals, and users who may not approve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from hitl_django import audit, services, signals
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.errors import (
    AlreadyApprovedError,
    AlreadyDecidedError,
    ClaimedError,
    ClaimRequiredError,
    IdempotencyKeyReusedError,
    NotAllowedError,
    StaleInterruptError,
)
from hitl_django.models import AuditEntry, Decision, Interrupt, PendingWrite, Run, Thread
from hitl_django.models.fields import digest_json
from tests.chaos import invariants
from tests.reading import values_of

from .conftest import asked

Make = Callable[..., User]
Advance = Callable[[], int]


@pytest.fixture
def people(user: Make) -> list[User]:
    return [user(name, "view_interrupt", "decide_interrupt") for name in ("ann", "bob", "cai")]


def jointly(advance: Advance, **terms: Any) -> Interrupt:
    return asked(
        "reviewed",
        {"payload": {"amount": 5, "to": "Dana"}, "terms": {"quorum": 2, **terms}},
        advance,
    )


def now(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=interrupt.pk)


@pytest.mark.promise("P1")
def test_second_approval_of_quorum_two_decides_the_interrupt(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    ann, bob, cai = people
    first = services.decide(interrupt.pk, "approve", by=ann, version=1)
    assert (first.complete, first.approvals, first.quorum) == (False, 1, 2)
    waiting = now(interrupt)
    assert (waiting.status, waiting.version, waiting.approvals) == ("pending", 1, 1)
    assert advance() == 0
    assert Run.objects.get(pk=first.run_id).state == "interrupted"
    assert not PendingWrite.objects.filter(thread=interrupt.thread, slot=-4).exists()

    second = services.decide(interrupt.pk, "approve", by=bob, version=1)
    assert (second.complete, second.approvals, second.quorum) == (True, 2, 2)
    advance()
    assert values_of(interrupt.thread)["answer"] is True
    assert now(interrupt).closing().by == bob  # type: ignore[union-attr]
    assert [d.by for d in Decision.objects.filter(effective=None)] == [ann]
    with pytest.raises(AlreadyDecidedError, match="approve by bob"):
        services.decide(interrupt.pk, "approve", by=cai)
    assert invariants.faults() == []


def test_second_approval_by_same_user_raises_already_approved_error(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    made = services.decide(interrupt.pk, "approve", by=people[0])
    with pytest.raises(AlreadyApprovedError, match="1 of 2 approvals") as caught:
        services.decide(interrupt.pk, "approve", by=people[0])
    assert caught.value.decision == made
    services.decide(interrupt.pk, "approve")
    assert now(interrupt).status == "decided"

    other = jointly(advance)
    services.decide(other.pk, "approve")
    with pytest.raises(AlreadyApprovedError):
        services.decide(other.pk, "approve")


@pytest.mark.promise("P2")
def test_approval_with_repeated_key_returns_the_first_approval(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    ann, bob, _ = people
    first = services.decide(interrupt.pk, "approve", by=ann, key="k")
    again = services.decide(interrupt.pk, "approve", by=ann, key="k")
    assert again.repeated
    assert (again.id, again.complete, again.approvals) == (first.id, False, 1)
    with pytest.raises(IdempotencyKeyReusedError):
        services.decide(interrupt.pk, "reject", by=ann, key="k")
    services.decide(interrupt.pk, "approve", by=bob, key="k")
    late = services.decide(interrupt.pk, "approve", by=ann, key="k")
    assert (late.id, late.complete, late.repeated) == (first.id, False, True)
    assert now(interrupt).status == "decided"


def test_edit_of_interrupt_with_quorum_resets_its_approvals(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    ann, bob, cai = people
    services.decide(interrupt.pk, "approve", by=ann)
    changed = {"amount": 4, "to": "Dana"}
    patch = [{"op": "replace", "path": "/amount", "value": 4}]
    edit = services.decide(interrupt.pk, "edit", changed, by=bob)
    assert (edit.complete, edit.approvals, edit.version, edit.patch) == (False, 1, 2, patch)

    proposed = now(interrupt)
    assert (proposed.version, proposed.approvals) == (2, 1)
    assert proposed.payload == {"amount": 5, "to": "Dana"}
    assert proposed.proposal == {"answer": changed, "edited": changed, "patch": patch}
    assert proposed.payload_digest != interrupt.payload_digest
    made = Decision.objects.get(version=2)
    assert (made.by, made.type, made.payload_digest) == (bob, "edit", proposed.payload_digest)

    for stale in ({"version": 1}, {"digest": interrupt.payload_digest}):
        with pytest.raises(StaleInterruptError):
            services.decide(interrupt.pk, "approve", by=cai, **stale)  # type: ignore[arg-type]
    with pytest.raises(AlreadyApprovedError):
        services.decide(interrupt.pk, "approve", by=bob)
    # She approved another version, so her approval doesn't count for this version.
    last = services.decide(interrupt.pk, "approve", by=ann, version=2)
    assert (last.complete, last.type, last.value, last.patch) == (True, "approve", changed, patch)
    advance()
    assert values_of(interrupt.thread)["answer"] == changed
    assert invariants.faults() == []


def test_equal_edit_by_second_user_counts_as_approval_of_the_edit(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    changed = {"to": "Dana", "amount": 4}
    services.decide(interrupt.pk, "edit", changed, by=people[0])
    other = services.decide(interrupt.pk, "edit", {"amount": 3, "to": "Dana"}, by=people[1])
    assert (other.version, other.complete) == (3, False)
    back = services.decide(interrupt.pk, "edit", changed, by=people[0])
    assert (back.version, back.complete) == (4, False)
    assert services.decide(interrupt.pk, "edit", changed, by=people[2]).complete
    advance()
    assert values_of(interrupt.thread)["answer"] == changed


def test_rejection_decides_interrupt_with_quorum_without_further_approvals(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    services.decide(interrupt.pk, "approve", by=people[0])
    rejected = services.decide(interrupt.pk, "reject", by=people[0], reason="On reflection, no.")
    assert (rejected.complete, rejected.approvals, rejected.value) == (True, 1, False)
    advance()
    assert values_of(interrupt.thread)["answer"] is False


def test_response_to_interrupt_with_quorum_becomes_proposal_that_a_second_user_approves(
    advance: Advance, people: list[User]
) -> None:
    schema = {"type": "integer"}
    interrupt = jointly(advance, response_schema=schema)
    assert interrupt.allowed_decisions == ["respond"]
    with pytest.raises(InvalidAnswerError):
        services.decide(interrupt.pk, "approve", by=people[0])
    services.decide(interrupt.pk, "respond", 7, by=people[0])
    assert services.check_answer(interrupt.pk, "approve", by=people[1]) == 7
    assert services.decide(interrupt.pk, "approve", by=people[1]).value == 7
    advance()
    assert values_of(interrupt.thread)["answer"] == 7


def test_approval_with_changed_values_becomes_a_new_proposal_of_the_interrupt(
    advance: Advance, people: list[User]
) -> None:
    properties = {"approved": {"type": "boolean"}, "amount": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    interrupt = jointly(advance, response_schema=schema)
    assert services.decide(interrupt.pk, "approve", {"amount": 5}, by=people[0]).version == 1
    lower = services.decide(interrupt.pk, "approve", {"amount": 4}, by=people[1])
    assert (lower.version, lower.complete) == (2, False)
    assert lower.patch == [{"op": "replace", "path": "/amount", "value": 4}]
    last = services.decide(interrupt.pk, "approve", by=people[2])
    assert (last.complete, last.value) == (True, {"amount": 4, "approved": True})


def test_approval_below_quorum_writes_audit_entry_and_only_last_approval_writes_decide_entry(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    services.decide(interrupt.pk, "approve", by=people[0], reason="Fine.")
    entry = AuditEntry.objects.get(thread=interrupt.thread, verb="approve")
    assert entry.actor == people[0]
    assert audit.get_shown_detail(entry) == {
        "actor_id": str(people[0].pk),
        "type": "approve",
        "payload_digest": interrupt.payload_digest,
        "version": 1,
        "answer": digest_json(True),
        "reason": "Fine.",
        "approvals": 1,
        "quorum": 2,
    }
    services.decide(interrupt.pk, "approve", by=people[1])
    assert AuditEntry.objects.filter(thread=interrupt.thread, verb="decide").count() == 1
    assert Delivery.objects.count() == 0  # no user has subscribed to notifications
    assert audit.find_first_fault(Thread.objects.get(pk=interrupt.thread_id)) is None


def test_interrupt_decided_signal_is_sent_only_after_the_last_required_approval(
    advance: Advance,
    people: list[User],
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    heard: list[Any] = []

    def hear(decision: Any, **kwargs: Any) -> None:
        heard.append((decision.by_label, decision.complete))

    interrupt = jointly(advance)
    signals.interrupt_decided.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        services.decide(interrupt.pk, "approve", by=people[0])
    assert heard == []
    with django_capture_on_commit_callbacks(execute=True):
        services.decide(interrupt.pk, "approve", by=people[1])
    assert heard == [("bob", True)]


def test_approval_below_quorum_ends_claim_and_assignment_of_the_approving_user(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance, assignee="ann")
    ann, bob, _ = people
    assert interrupt.assignee == ann
    services.claim(interrupt.pk, by=ann)
    services.decide(interrupt.pk, "approve", by=ann)
    left = now(interrupt)
    assert (left.claimed_by, left.assignee, left.assignee_label) == (None, None, "")
    assert services.claim_next(by=ann) is None
    assert services.claim_next(by=bob) == interrupt.pk


def test_approval_of_one_interrupt_preserves_claims_of_the_user_on_other_interrupts(
    advance: Advance, people: list[User]
) -> None:
    ann = people[0]
    first, interrupt, last = (jointly(advance, assignee="ann") for _ in range(3))
    for each in (first, interrupt, last):
        services.claim(each.pk, by=ann)
    services.decide(interrupt.pk, "approve", by=ann)
    for other in map(now, (first, last)):
        assert (other.claimed_by, other.assignee, other.assignee_label) == (ann, ann, "ann")


def test_approval_below_quorum_preserves_claim_and_assignment_of_another_user(
    advance: Advance, people: list[User]
) -> None:
    ann, bob, _ = people
    interrupt = jointly(advance, assignee="bob")
    services.claim(interrupt.pk, by=bob)
    services.decide(interrupt.pk, "approve", by=ann)
    left = now(interrupt)
    assert (left.approvals, left.claimed_by, left.assignee) == (1, bob, bob)


def test_interrupt_pending_again_after_rejected_response_needs_all_approvals_again(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance, typed=True)
    services.decide(interrupt.pk, "respond", {"seats": 3}, by=people[0])
    services.decide(interrupt.pk, "approve", by=people[1])
    advance()
    again = now(interrupt)
    assert (again.status, again.approvals, again.proposal) == ("pending", 0, None)
    assert again.payload_digest == interrupt.payload_digest
    assert again.refused() is not None
    services.decide(interrupt.pk, "respond", {"seats": 4}, by=people[0])
    # Reviewers of the proposal still see the rejection of the previous response.
    assert now(interrupt).refused() == again.refused()
    services.decide(interrupt.pk, "respond", {"seats": 4}, by=people[1])
    advance()
    assert Run.objects.get(pk=interrupt.run_id).state == "succeeded"


def test_user_who_started_a_run_that_forbids_self_approval_can_only_reject(
    advance: Advance, people: list[User], user: Make, unchanged: Callable[..., None]
) -> None:
    starter = user("sam", "start_run", "view_interrupt", "decide_interrupt")
    given = {"payload": {"amount": 5}, "terms": {"no_self_approval": True}}
    run = services.start("reviewed", given, by=starter)
    advance()
    interrupt = Interrupt.objects.get(run=run.id)
    unchanged()
    for decision, value in (("approve", services.UNSET), ("edit", {}), ("respond", "yes")):
        with pytest.raises(NotAllowedError, match="You started this run"):
            services.decide(interrupt.pk, decision, value, by=starter)
    unchanged(refused=3)
    with pytest.raises(NotAllowedError):
        services.check_answer(interrupt.pk, "approve", by=starter)
    assert services.check_answer(interrupt.pk, "approve", by=people[0]) is True
    assert services.decide(interrupt.pk, "reject", by=starter).value is False


def test_starters_of_original_and_forked_run_cannot_approve_fork_that_forbids_self_approval(
    advance: Advance, people: list[User], user: Make
) -> None:
    starter = user("sam", "start_run", "view_interrupt", "decide_interrupt")
    operator = ("view_run", "view_thread", "operate_run")
    forker, other = user("olga", "view_interrupt", "decide_interrupt", *operator), people[0]
    given = {"payload": {"amount": 5}, "terms": {"no_self_approval": True}}
    thread = services.start("reviewed", given, by=starter).thread_id
    advance()
    place = Interrupt.objects.get().checkpoint_id
    for by in (forker, None):  # also a fork of a fork
        newest = services.fork(thread, place, by=by).id
        advance()
        place = Interrupt.objects.get(run=newest).checkpoint_id
    interrupt = Interrupt.objects.get(status="pending")
    for own in (starter, forker):
        with pytest.raises(NotAllowedError, match="You started this run"):
            services.decide(interrupt.pk, "approve", by=own)
        assert services.claim_next(by=own) is None
    assert services.claim_next(by=other) == interrupt.pk
    services.decide(interrupt.pk, "approve", by=other)


def test_user_who_started_another_run_of_the_thread_can_approve_fork(
    advance: Advance, people: list[User], user: Make
) -> None:
    ann, bob, _ = people
    given = {"payload": {"amount": 5}, "terms": {"no_self_approval": True}}
    first = services.start("reviewed", given, by=None)
    Run.objects.filter(pk=first.id).update(started_by=ann)
    advance()
    services.decide(Interrupt.objects.get().pk, "approve")
    advance()
    second = services.start("reviewed", given, thread_id=first.thread_id)
    Run.objects.filter(pk=second.id).update(started_by=bob)
    advance()
    services.fork(first.thread_id, Interrupt.objects.get(run=second.id).checkpoint_id)
    advance()
    interrupt = Interrupt.objects.get(status="pending")
    assert services.claim_next(by=bob) is None
    assert services.claim_next(by=ann) == interrupt.pk
    with pytest.raises(NotAllowedError, match="You started this run"):
        services.decide(interrupt.pk, "approve", by=bob)
    assert services.decide(interrupt.pk, "approve", by=ann).complete


def test_approval_without_required_claim_raises_claim_required_error(
    advance: Advance, people: list[User], unchanged: Callable[..., None]
) -> None:
    given = {"payload": {"amount": 5}, "terms": {"claim_required": True}}
    interrupt = asked("reviewed", given, advance)
    ann, bob, _ = people
    unchanged()
    with pytest.raises(ClaimRequiredError):
        services.decide(interrupt.pk, "approve", by=ann)
    unchanged()
    services.claim(interrupt.pk, by=bob)
    with pytest.raises(ClaimedError):
        services.decide(interrupt.pk, "approve", by=ann)
    assert services.decide(interrupt.pk, "approve", by=bob).complete


def test_check_answer_rejects_second_approval_by_user_and_accepts_rejection(
    advance: Advance, people: list[User]
) -> None:
    interrupt, (ann, bob, _) = jointly(advance), people
    services.decide(interrupt.pk, "approve", by=ann)
    with pytest.raises(AlreadyApprovedError, match="1 of 2"):
        services.check_answer(interrupt.pk, "approve", by=ann)
    for decision in ("reject", "edit"):
        value = {"amount": 6, "to": "Dana"} if decision == "edit" else services.UNSET
        services.check_answer(interrupt.pk, decision, value, by=ann)
    assert services.check_answer(interrupt.pk, "approve", by=bob) is True


def test_approval_of_cancelled_interrupt_raises_already_decided_error(
    advance: Advance, people: list[User]
) -> None:
    interrupt = jointly(advance)
    services.decide(interrupt.pk, "approve", by=people[0])
    services.cancel(interrupt.run_id)
    with pytest.raises(AlreadyDecidedError, match="no longer pending: cancelled") as caught:
        services.decide(interrupt.pk, "approve", by=people[1])
    assert (caught.value.status, caught.value.decision) == ("cancelled", None)


def test_approval_by_same_user_on_two_interrupts_counts_once_on_each(
    advance: Advance, people: list[User]
) -> None:
    interrupts = [jointly(advance) for _ in range(2)]
    for interrupt in interrupts:
        assert services.decide(interrupt.pk, "approve", by=people[0]).approvals == 1


def test_approval_without_user_counts_in_addition_to_approval_of_deleted_user(
    advance: Advance, people: list[User]
) -> None:
    """Both approvals have no user id in the database."""
    interrupt = jointly(advance)
    services.decide(interrupt.pk, "approve", by=people[0])
    people[0].delete()
    assert services.decide(interrupt.pk, "approve").complete


def test_decision_without_user_is_accepted_despite_claims_and_forbidden_self_approval(
    advance: Advance, people: list[User], user: Make
) -> None:
    starter = user("sam", "start_run")
    terms = {"no_self_approval": True, "claim_required": True}
    for by in (starter, None):
        services.start("reviewed", {"payload": {"amount": 5}, "terms": terms}, by=by)
    advance()
    held, free = Interrupt.objects.order_by("created_at", "pk")
    services.claim(held.pk, by=people[0])
    for interrupt in (held, free):
        assert services.decide(interrupt.pk, "approve").complete


def test_approval_with_expired_required_claim_raises_claim_required_error(
    advance: Advance, people: list[User], unchanged: Callable[..., None]
) -> None:
    terms = {"claim_required": True}
    interrupt = asked("reviewed", {"payload": {"amount": 5}, "terms": terms}, advance)
    services.claim(interrupt.pk, by=people[0])
    Interrupt.objects.update(claimed_until=Now())
    unchanged()
    for person in people[:2]:
        with pytest.raises(ClaimRequiredError):
            services.decide(interrupt.pk, "approve", by=person)
    unchanged()


def test_audit_entry_contains_approvals_only_for_interrupt_with_quorum_above_one(
    advance: Advance,
) -> None:
    for quorum in (1, 2):
        interrupt = jointly(advance, quorum=quorum)
        services.decide(interrupt.pk, "approve")
    alone, first = AuditEntry.objects.filter(verb__in=["decide", "approve"]).order_by("pk")
    assert not {"approvals", "quorum"} & alone.detail.keys()
    assert (first.detail["approvals"], first.detail["quorum"]) == (1, 2)


def test_approval_without_user_preserves_assignment_label_of_user_without_account(
    advance: Advance,
) -> None:
    """Users without an account and code both have no user id in the database."""
    interrupt = jointly(advance)
    Interrupt.objects.update(assignee_label="zoe")
    services.decide(interrupt.pk, "approve")
    assert now(interrupt).assignee_label == "zoe"
