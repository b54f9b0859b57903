"""decide: resume values of the graph, and refused decisions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django_q.models import OrmQ

from hitl_django import answers, audit, services, signals
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import (
    HitlError,
    InvalidAnswerError,
    PayloadLimitError,
    UnserializableError,
)
from hitl_django.errors import (
    AlreadyDecidedError,
    ClaimRequiredError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    NotAllowedError,
    RunStateError,
    SelfApprovalError,
    StaleInterruptError,
)
from hitl_django.models import AuditEntry, Decision, Interrupt, PendingWrite, Run, Thread
from hitl_django.services.reviews import decide
from hitl_django.worker import runner
from tests.messages import MESSAGES
from tests.reading import values_of

from .conftest import asked

Advance = Callable[[], int]
Unchanged = Callable[..., None]


@pytest.mark.promise("P3")
def test_decide_writes_decision_audit_entry_and_resume_value_and_queues_run(
    interrupt: Interrupt, reviewer: User, advance: Advance
) -> None:
    info = services.decide(
        interrupt.pk, "approve", by=reviewer, via="admin", reason="looks good", key="k1"
    )
    assert (info.type, info.value, info.by_label, info.via) == ("approve", True, "rita", "admin")
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.version) == ("decided", 2)
    assert interrupt.closed_at is not None
    assert Run.objects.get().state == "queued"
    decision = Decision.objects.get()
    assert (decision.pk, decision.by, decision.reason) == (info.id, reviewer, "looks good")
    assert decision.payload_digest == interrupt.payload_digest
    entry = AuditEntry.objects.get(verb="decide")
    assert (entry.actor_label, entry.subject) == ("rita", str(interrupt.pk))
    assert entry.detail["type"] == "approve"
    assert audit.find_first_fault(interrupt.thread) is None
    assert PendingWrite.objects.filter(slot=-4).count() == 1

    assert advance() == 1
    assert Run.objects.get().state == "succeeded"
    assert values_of(interrupt.thread)["answer"] is True


@pytest.mark.promise("P1")
def test_concurrent_second_decision_raises_already_decided_error_with_first_decision(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: services.decide(interrupt.pk, "reject", reason="no"))
    with pytest.raises(AlreadyDecidedError) as refused:
        services.decide(interrupt.pk, "approve")
    assert refused.value.decision.type == "reject"
    assert Decision.objects.get().type == "reject"
    assert AuditEntry.objects.filter(verb="decide").count() == 1
    assert audit.find_first_fault(Thread.objects.get()) is None


@pytest.mark.promise("P20")
def test_decision_after_concurrent_assignment_extends_audit_log_without_fault(
    interrupt: Interrupt, reviewer: User, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: services.assign(interrupt.pk, to=reviewer, by=None, via="code"))
    assert services.decide(interrupt.pk, "approve").complete
    assert [*AuditEntry.objects.order_by("seq").values_list("verb", flat=True)][-2:] == [
        "assign",
        "decide",
    ]
    assert audit.find_first_fault(Thread.objects.get()) is None
    advance()
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P1")
def test_decision_on_concurrently_cancelled_interrupt_raises_already_decided_error(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Interrupt.objects.filter(pk=interrupt.pk)
    meanwhile(monkeypatch, lambda: closed.update(status="cancelled"))
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve")
    assert not Decision.objects.exists()
    assert audit.find_first_fault(Thread.objects.get()) is None


@pytest.mark.promise("P3")
@pytest.mark.django_db(transaction=True)
def test_decision_for_concurrently_parked_run_raises_run_state_error(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: Run.objects.update(state="parked"))
    with pytest.raises(RunStateError):
        services.decide(interrupt.pk, "approve")
    assert Interrupt.objects.get().status == "pending"
    assert not Decision.objects.exists()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call a function once, after the next decision has read its interrupt."""
    read = decide._read

    def and_then(pk: uuid.UUID) -> Any:
        found = read(pk)
        monkeypatch.setattr(decide, "_read", read)
        act()
        return found

    monkeypatch.setattr(decide, "_read", and_then)


@pytest.mark.promise("P9")
@pytest.mark.django_db(transaction=True)
def test_decision_that_loses_to_concurrent_decision_sends_no_message_to_worker(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = MESSAGES
    run = services.start("approval", {"text": "x"})
    runner.advance(str(run.id))
    OrmQ.objects.all().delete()
    interrupt = Interrupt.objects.get()
    meanwhile(monkeypatch, lambda: services.decide(interrupt.pk, "reject"))
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve")
    assert OrmQ.objects.count() == 1


@pytest.mark.promise("P1")
@pytest.mark.django_db(transaction=True)
def test_decision_on_interrupt_cancelled_just_before_the_write_stores_no_rows(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = WriteBatch.run

    def late(batch: WriteBatch) -> Any:
        Interrupt.objects.update(status="cancelled", version=2)
        return run(batch)

    entries = AuditEntry.objects.count()
    with monkeypatch.context() as patch:
        patch.setattr(decide, "_needs_no_lock", lambda interrupt: False)
        patch.setattr(WriteBatch, "run", late)
        with pytest.raises(AlreadyDecidedError):
            services.decide(interrupt.pk, "respond", 1)
    assert (Decision.objects.count(), AuditEntry.objects.count()) == (0, entries)


@pytest.mark.django_db(transaction=True)
def test_decision_for_run_parked_just_before_the_write_stores_no_rows(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = WriteBatch.run

    def late(batch: WriteBatch) -> Any:
        Run.objects.update(state="parked")
        return run(batch)

    entries = AuditEntry.objects.count()
    with monkeypatch.context() as patch:
        patch.setattr(decide, "_needs_no_lock", lambda interrupt: False)
        patch.setattr(WriteBatch, "run", late)
        with pytest.raises(RunStateError, match="parked"):
            services.decide(interrupt.pk, "respond", 1)
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"
    assert (Decision.objects.count(), AuditEntry.objects.count()) == (0, entries)


@pytest.mark.parametrize(
    ("type_", "value", "answer"),
    [
        ("approve", services.UNSET, True),
        ("reject", services.UNSET, False),
        ("edit", {"title": "Other", "text": "y"}, {"title": "Other", "text": "y"}),
        ("respond", None, None),
        ("respond", 0, 0),
        ("respond", [1, {"a": -0.0}], [1, {"a": -0.0}]),
        ("respond", "NUL is refused, \u202e is not", "NUL is refused, \u202e is not"),
    ],
)
def test_node_receives_resume_value_of_each_decision_type(
    interrupt: Interrupt, advance: Advance, type_: str, value: Any, answer: Any
) -> None:
    info = services.decide(interrupt.pk, type_, value)
    assert info.value == answer
    assert Decision.objects.get().value == answer
    advance()
    assert values_of(interrupt.thread)["answer"] == answer


@pytest.mark.promise("P4")
def test_each_parallel_interrupt_receives_its_response_in_any_order_of_decisions(
    advance: Advance,
) -> None:
    asked("panel", {"log": []}, advance)
    right, left = Interrupt.objects.order_by("-task_path")
    services.decide(right.pk, "respond", "R")
    services.decide(left.pk, "respond", "L")
    advance()
    assert values_of(left.thread)["answers"] == [("left", "L"), ("right", "R")]
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P4")
def test_decision_on_first_of_two_parallel_interrupts_leaves_the_second_pending(
    advance: Advance,
) -> None:
    asked("panel", {"log": []}, advance)
    left, right = Interrupt.objects.order_by("task_path")
    services.decide(left.pk, "respond", "L")
    advance()
    right.refresh_from_db()
    assert (right.status, right.version) == ("pending", 1)
    assert Run.objects.get().state == "interrupted"
    services.decide(right.pk, "respond", "R", version=1, digest=right.payload_digest)
    advance()
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P4")
def test_run_waiting_for_all_responses_is_queued_after_its_last_response(advance: Advance) -> None:
    run, other = (services.start("jury", {"log": []}) for _ in range(2))
    advance()
    states = []
    for interrupt in Interrupt.objects.filter(run=run.id):
        services.decide(interrupt.pk, "respond", "yes")
        states.append(Run.objects.get(pk=run.id).state)
    assert states == [*["interrupted"] * 4, "queued"]
    assert Run.objects.get(pk=other.id).state == "interrupted"


def test_second_interrupt_of_a_node_becomes_pending_after_decision_on_the_first(
    advance: Advance,
) -> None:
    first = asked("interview", {"log": []}, advance)
    services.decide(first.pk, "respond", "one")
    advance()
    second = Interrupt.objects.get(status="pending")
    assert second.title == "Second, after one?"
    with pytest.raises(AlreadyDecidedError):
        services.decide(first.pk, "respond", "late")
    services.decide(second.pk, "respond", "two")
    advance()
    assert values_of(first.thread)["answers"] == ["one", "two"]


@pytest.mark.promise("P4")
def test_interrupts_with_keys_receive_the_responses_given_to_their_keys(advance: Advance) -> None:
    asked("keyed", {"log": []}, advance)
    while row := Interrupt.objects.filter(status="pending").first():
        services.decide(row.pk, "respond", f"to {row.title}")
        advance()
    assert Run.objects.get().state == "succeeded", Run.objects.get().error
    answers = values_of(Thread.objects.get())["answers"]
    assert answers == ["to Plain?", "to b?", "to a?"]


@pytest.mark.promise("P4")
@pytest.mark.parametrize("first", ["deep", "top"])
def test_each_interrupt_of_nested_subgraphs_receives_its_response_in_any_order(
    advance: Advance, first: str
) -> None:
    asked("nested", {"log": []}, advance)
    thread = Thread.objects.get()

    def answer(node: str) -> None:
        row = Interrupt.objects.get(status="pending", node=node)
        services.decide(row.pk, "respond", node.upper())

    open_nodes = Interrupt.objects.filter(status="pending").values_list("node", flat=True)
    assert set(open_nodes) == {"deep", "top"}
    answer(first)
    advance()
    answer("top" if first == "deep" else "deep")
    advance()
    if first == "top":
        assert list(open_nodes.all()) == ["mid"]
    answer("mid")
    advance()
    assert Run.objects.get().state == "succeeded", Run.objects.get().error
    answers = dict(values_of(thread)["answers"])
    assert answers == {"deep": "DEEP", "mid": "MID", "top": "TOP"}
    assert Interrupt.objects.count() == 3


def test_approved_breakpoint_resumes_run_and_rejection_raises_invalid_answer_error(
    advance: Advance,
) -> None:
    stop = asked("gated", {"text": "x"}, advance)
    with pytest.raises(InvalidAnswerError, match="approve"):
        services.decide(stop.pk, "reject")
    services.decide(stop.pk, "approve")
    advance()
    assert values_of(stop.thread)["answer"] == "done"


def test_two_decisions_on_one_run_create_one_worker_task(advance: Advance) -> None:
    asked("panel", {"log": []}, advance)
    for row in Interrupt.objects.all():
        services.decide(row.pk, "approve")
    assert advance() == 1


@pytest.mark.promise("P1")
def test_second_decision_on_interrupt_raises_already_decided_error_with_the_first_decision(
    interrupt: Interrupt, reviewer: User, unchanged: Unchanged
) -> None:
    won = services.decide(interrupt.pk, "approve", by=reviewer)
    unchanged()
    with pytest.raises(AlreadyDecidedError, match="approve by rita") as caught:
        services.decide(interrupt.pk, "reject")
    assert caught.value.status == "decided"
    assert caught.value.decision == won
    unchanged()


@pytest.mark.promise("P2")
def test_decision_with_repeated_key_returns_the_first_decision(
    interrupt: Interrupt, reviewer: User, unchanged: Unchanged
) -> None:
    first = services.decide(interrupt.pk, "respond", {"a": 1, "b": 2}, by=reviewer, key="k")
    unchanged()
    again = services.decide(interrupt.pk, "respond", {"b": 2, "a": 1}, by=reviewer, key="k")
    assert (again.id, again.repeated, first.repeated) == (first.id, True, False)
    unchanged()


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [("respond", 2, ""), ("reject", services.UNSET, ""), ("respond", 1, "because")],
)
def test_decision_with_repeated_key_and_different_arguments_raises_key_reused_error(
    interrupt: Interrupt, unchanged: Unchanged, type_: str, value: Any, reason: str
) -> None:
    services.decide(interrupt.pk, "respond", 1, key="k")
    unchanged()
    with pytest.raises(IdempotencyKeyReusedError, match="'k'"):
        services.decide(interrupt.pk, type_, value, reason=reason, key="k")
    unchanged()


@pytest.mark.promise("P2")
def test_decision_with_key_used_by_another_user_raises_already_decided_error(
    interrupt: Interrupt, reviewer: User, user: Callable[..., User]
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer, key="k")
    other = user("otto", "view_interrupt", "decide_interrupt")
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve", by=other, key="k")
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve", by=reviewer, key="another")
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "approve", by=reviewer)


@pytest.mark.promise("P5")
@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"approved": "yes", "amount": 1}, "/amount"),
        ({"amount": "much"}, "/amount"),
        ({"amount": True}, "/amount"),
        ({"note": "no amount"}, "/amount"),
        ([1], ""),
        (services.UNSET, ""),
    ],
)
def test_response_failing_its_schema_raises_invalid_answer_error_with_json_pointer(
    advance: Advance, unchanged: Unchanged, value: Any, pointer: str
) -> None:
    row = asked("typed", {"amount": 5.0, "customer": "D"}, advance)
    unchanged()
    if value is not services.UNSET and isinstance(value, dict) and value.get("amount") == 1:
        value = {**value, "amount": None}
    with pytest.raises(InvalidAnswerError) as caught:
        services.decide(row.pk, "edit", value)
    assert [where for where, _ in caught.value.faults] == [pointer]
    with pytest.raises(InvalidAnswerError):
        services.check_answer(row.pk, "edit", value)
    unchanged()


def test_approval_of_interrupt_with_schema_uses_payload_values_as_response(
    advance: Advance,
) -> None:
    row = asked("typed", {"amount": 5.0, "customer": "D"}, advance)
    assert services.check_answer(row.pk, "reject") == {"approved": False, "amount": 5.0, "note": ""}
    info = services.decide(row.pk, "approve", {"note": "fine"})
    assert info.value == {"approved": True, "amount": 5.0, "note": "fine"}
    advance()
    assert values_of(row.thread)["refunded"] == 5.0


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.promise("P21")
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (deep(33), PayloadLimitError),
        (deep(5000), PayloadLimitError),
        ([0] * 10_000, PayloadLimitError),
        ("x" * (256 * 1024), PayloadLimitError),
        ("a\x00b", UnserializableError),
        ({"a": ["\ud800"]}, UnserializableError),
        ({"a\x00": 1}, UnserializableError),
        (float("nan"), UnserializableError),
        (float("inf"), UnserializableError),
        (object(), UnserializableError),
        ({1: 2}, UnserializableError),
        ({"s": {1}}, UnserializableError),
    ],
)
def test_response_beyond_size_or_depth_limits_raises_payload_error(
    interrupt: Interrupt, unchanged: Unchanged, value: Any, error: type[Exception]
) -> None:
    unchanged()
    with pytest.raises(error):
        services.decide(interrupt.pk, "respond", value)
    unchanged()


def test_response_at_size_depth_and_container_limits_is_accepted(
    interrupt: Interrupt, advance: Advance
) -> None:
    assert services.check_answer(interrupt.pk, "respond", deep(32)) == deep(32)
    assert len(services.check_answer(interrupt.pk, "respond", [0] * 9_999)) == 9_999
    longest = "x" * (256 * 1024 - 2)
    assert services.check_answer(interrupt.pk, "respond", longest) == longest


@pytest.mark.parametrize(
    ("type_", "value"),
    [("maybe", services.UNSET), ("", services.UNSET), ("approve", 1), ("edit", services.UNSET)],
)
def test_decision_with_unknown_type_or_missing_value_raises_invalid_answer_error(
    interrupt: Interrupt, unchanged: Unchanged, type_: str, value: Any
) -> None:
    unchanged()
    with pytest.raises(InvalidAnswerError):
        services.decide(interrupt.pk, type_, value)
    unchanged()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("ordinary", [True, False])
def test_decision_with_several_errors_raises_permission_error_before_state_error(
    advance: Advance, user: Callable[..., User], ordinary: bool
) -> None:
    review = ("view_interrupt", "decide_interrupt")
    starter, other = user("sam", "start_run", *review), user("bob", *review)
    terms = {} if ordinary else {"no_self_approval": True, "claim_required": True}
    given = {"payload": {"amount": 5}, "terms": terms}
    run = services.start("reviewed", given, by=starter)
    advance()
    interrupt = Interrupt.objects.get(run=run.id)
    Run.objects.update(state="parked")

    def refused(by: User, **more: Any) -> type[Exception]:
        with pytest.raises(HitlError) as caught:
            services.decide(interrupt.pk, "maybe", by=by, **more)
        return type(caught.value)

    def refused_unsent(by: User) -> type[Exception]:
        with pytest.raises(HitlError) as caught:
            services.check_answer(interrupt.pk, "maybe", by=by)
        return type(caught.value)

    assert refused(user("dan"), version=9) is InterruptNotFound
    viewer = user("vera", "view_interrupt")
    assert refused(viewer, version=9) is refused_unsent(viewer) is NotAllowedError
    assert refused(starter, version=9) is StaleInterruptError
    assert refused(starter) is refused_unsent(starter) is RunStateError
    Run.objects.update(state="interrupted")
    assert refused(viewer, version=9) is NotAllowedError
    if not ordinary:
        assert refused(starter) is refused_unsent(starter) is SelfApprovalError
        assert refused(other) is ClaimRequiredError
        services.claim(interrupt.pk, by=other)
    assert refused(other) is refused_unsent(other) is InvalidAnswerError
    services.decide(interrupt.pk, "reject", by=other)
    Run.objects.update(state="parked")
    assert refused(viewer, version=1) is refused_unsent(viewer) is NotAllowedError
    assert refused(starter, version=1) is refused_unsent(starter) is AlreadyDecidedError


def test_decision_with_invalid_idempotency_key_raises_invalid_answer_error(
    interrupt: Interrupt, unchanged: Unchanged
) -> None:
    unchanged()
    for key in ("x" * 256, "a\x00b", "a\nb"):
        with pytest.raises(InvalidAnswerError):
            services.decide(interrupt.pk, "approve", key=key)
    unchanged()


@pytest.mark.parametrize("bad", ["", "x", "../", "1", uuid.uuid4(), "A" * 10_000, None, 5])
def test_decision_on_invalid_or_unknown_interrupt_id_raises_interrupt_not_found(
    bad: Any, advance: Advance
) -> None:
    with pytest.raises(InterruptNotFound):
        services.decide(bad, "approve")


def test_decision_on_row_instead_of_id_raises_type_error(interrupt: Interrupt) -> None:
    with pytest.raises(TypeError, match="Pass the id of the interrupt"):
        services.decide(interrupt, "approve")  # type: ignore[arg-type]


@pytest.mark.promise("P18")
def test_decision_without_view_permission_raises_interrupt_not_found(
    interrupt: Interrupt, user: Callable[..., User], unchanged: Unchanged
) -> None:
    blind = [user("una"), user("otto", "decide_interrupt"), AnonymousUser()]
    unchanged()
    for who in blind:
        for act in (services.decide, services.check_answer):
            with pytest.raises(InterruptNotFound):
                act(interrupt.pk, "approve", by=who)
    unchanged()


@pytest.mark.promise("P18")
def test_decision_with_only_view_permission_raises_not_allowed_error(
    interrupt: Interrupt, user: Callable[..., User], unchanged: Unchanged
) -> None:
    watcher = user("wim", "view_interrupt")
    unchanged()
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=watcher)
    with pytest.raises(NotAllowedError):
        services.check_answer(interrupt.pk, "approve", by=watcher)
    unchanged(refused=1)


def test_check_answer_and_find_refusals_check_only_the_given_interrupts(advance: Advance) -> None:
    first, interrupt, last = (asked("approval", {"text": "x"}, advance) for _ in range(3))
    for other in (first, last):
        services.decide(other.pk, "approve")
    assert services.check_answer(interrupt.pk, "approve") is True
    with pytest.raises(AlreadyDecidedError):
        services.check_answer(first.pk, "approve")
    unknown = uuid.uuid4()
    refused = services.find_refusals([interrupt.pk, last.pk, unknown], "approve")
    assert {pk: type(error) for pk, error in refused.items()} == {
        last.pk: AlreadyDecidedError,
        unknown: InterruptNotFound,
    }


@pytest.mark.promise("P18")
def test_decide_checks_permission_inside_a_transaction(
    interrupt: Interrupt, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hitl_django.permissions import ModelPermissionPolicy

    inside: list[bool] = []

    def may_decide(self: Any, user: Any, interrupt: Any) -> bool:
        inside.append(transaction.get_connection().in_atomic_block)
        return False

    monkeypatch.setattr(ModelPermissionPolicy, "may_decide", may_decide)
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=reviewer)
    assert inside == [True]


def test_decision_with_outdated_digest_or_version_raises_stale_interrupt_error(
    interrupt: Interrupt, unchanged: Unchanged
) -> None:
    unchanged()
    with pytest.raises(StaleInterruptError):
        services.decide(interrupt.pk, "approve", digest="0" * 32)
    with pytest.raises(StaleInterruptError):
        services.decide(interrupt.pk, "approve", version=interrupt.version + 1)
    unchanged()
    services.decide(
        interrupt.pk, "approve", digest=interrupt.payload_digest, version=interrupt.version
    )


@pytest.mark.parametrize("state", ["parked", "failed", "cancelled", "succeeded"])
def test_decision_for_stopped_run_raises_run_state_error_with_its_state(
    interrupt: Interrupt, unchanged: Unchanged, state: str
) -> None:
    Run.objects.update(state=state)
    unchanged()
    with pytest.raises(RunStateError) as caught:
        services.decide(interrupt.pk, "approve")
    assert caught.value.state == state
    unchanged()


@pytest.mark.parametrize("status", ["expired", "superseded", "cancelled"])
def test_decision_on_closed_interrupt_raises_already_decided_error_naming_its_status(
    interrupt: Interrupt, status: str
) -> None:
    Interrupt.objects.update(status=status)
    with pytest.raises(AlreadyDecidedError, match=status) as caught:
        services.decide(interrupt.pk, "approve")
    assert (caught.value.status, caught.value.decision) == (status, None)


@pytest.mark.promise("P3")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("outer", [nullcontext, transaction.atomic], ids=["whole", "savepoint"])
def test_rolled_back_decision_changes_no_rows_and_sends_no_signal(
    interrupt: Interrupt, unchanged: Unchanged, outer: Callable[[], Any]
) -> None:
    heard: list[Any] = []

    def hear(decision: Any, **kwargs: Any) -> None:
        heard.append(decision.type)

    signals.interrupt_decided.connect(hear)
    unchanged()
    with outer():
        with transaction.atomic():
            services.decide(interrupt.pk, "approve")
            transaction.set_rollback(True)
        unchanged()
    assert heard == []
    services.decide(interrupt.pk, "approve")
    assert heard == ["approve"]


def test_decision_of_deleted_user_preserves_the_username_as_label(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    reviewer.delete()
    decision = Decision.objects.get()
    assert (decision.by, decision.by_label) == (None, "rita")
    assert audit.find_first_fault(Thread.objects.get()) is None


def somebody_else() -> int:
    return User.objects.create_user("somebody else").pk


TAMPERED = [
    ("verb", "start"),
    ("actor_id", somebody_else),
    ("actor_label", "somebody else"),
    ("subject", ""),
    ("via", "api"),
    ("detail", {"type": "reject"}),
    ("detail", []),
    ("at", datetime(2026, 1, 1, tzinfo=UTC)),
    ("hash", "0" * 64),
    ("prev_hash", "0" * 64),
    ("seq", 7),
    ("thread_id", lambda: Thread.objects.create(thread_id="another").pk),
]


def test_audit_tampering_cases_include_every_column_of_audit_entry() -> None:
    columns = {field.attname for field in AuditEntry._meta.concrete_fields}
    assert columns - {"id"} == {column for column, _ in TAMPERED}


@pytest.mark.promise("P20")
@pytest.mark.parametrize(("column", "value"), TAMPERED)
def test_audit_log_with_changed_or_deleted_entry_is_reported_as_faulty(
    interrupt: Interrupt, reviewer: User, column: str, value: Any
) -> None:
    services.decide(interrupt.pk, "approve", by=reviewer)
    thread = Thread.objects.get()
    assert audit.find_first_fault(thread) is None
    tampered = value() if callable(value) else value
    AuditEntry.objects.filter(seq=2).update(**{column: tampered})
    assert audit.find_first_fault(thread) == 2
    AuditEntry.objects.exclude(seq=1).delete()
    assert audit.find_first_fault(thread) == 2
    AuditEntry.objects.all().delete()
    assert audit.find_first_fault(thread) == 1


def test_different_decision_on_erased_interrupt_raises_already_decided_error(
    interrupt: Interrupt, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.decide(interrupt.pk, "approve")
    advance()
    services.erase_thread(interrupt.thread.thread_id)
    # The data of an erased thread can't be read.
    monkeypatch.setattr(answers, "read_options", None)
    with pytest.raises(AlreadyDecidedError):
        services.decide(interrupt.pk, "edit", {"title": "Other"})
