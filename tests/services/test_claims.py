"""Claims on the database's clock, and claim_next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from hitl_django import audit, leases, services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import (
    AlreadyDecidedError,
    ClaimedError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    InvalidAnswerError,
    NotAllowedError,
)
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.services.reviews import claim, lookup

from .conftest import asked

Advance = Callable[[], int]
REVIEW = ("view_interrupt", "decide_interrupt")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def sam(user: Callable[..., User]) -> User:
    return user("sam", *REVIEW)


@pytest.fixture
def lead(user: Callable[..., User]) -> User:
    return user("lea", *REVIEW, "take_over_interrupt")


def again(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=interrupt.pk)


def let_pass(interrupt: Interrupt) -> None:
    Interrupt.objects.filter(pk=interrupt.pk).update(claimed_until=Now() - MINUTE)


def verbs() -> list[str]:
    return [*AuditEntry.objects.exclude(verb="start").values_list("verb", flat=True)]


def test_claim_stores_user_and_end_time_without_audit_entry(
    interrupt: Interrupt, reviewer: User
) -> None:
    info = services.claim(interrupt.pk, by=reviewer, via="admin")
    row = again(interrupt)
    assert (info.interrupt_id, info.claimed_by_id, info.claimed_by_label) == (
        row.pk,
        reviewer.pk,
        "rita",
    )
    assert info.until == row.claimed_until
    assert timedelta(minutes=14) < row.claimed_until - row.created_at < timedelta(minutes=17)
    assert verbs() == []  # a claim creates no audit log entry


def test_claim_length_is_taken_from_setting_or_seconds_argument(
    interrupt: Interrupt, reviewer: User
) -> None:
    with override_settings(HITL={"CLAIM_SECONDS": 60}):
        first = services.claim(interrupt.pk, by=reviewer).until
    longer = services.claim(interrupt.pk, by=reviewer, seconds=7200).until
    assert timedelta(minutes=110) < longer - first < timedelta(minutes=130)


@pytest.mark.parametrize("seconds", [-5, 0, 1e12, float("nan")])
def test_claim_with_impossible_length_raises_invalid_input_error(
    interrupt: Interrupt, reviewer: User, seconds: float
) -> None:
    with pytest.raises(InvalidInputError, match="at most 365 days"):
        services.claim(interrupt.pk, by=reviewer, seconds=seconds)


def test_claim_of_interrupt_claimed_by_another_user_raises_claimed_error_naming_user_and_end(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    info = services.claim(interrupt.pk, by=reviewer)
    with pytest.raises(ClaimedError, match=r"^The interrupt is claimed by rita until 2") as refused:
        services.claim(interrupt.pk, by=sam)
    assert (refused.value.claimed_by_label, refused.value.until) == ("rita", info.until)
    assert again(interrupt).claimed_by == reviewer


def test_interrupt_with_expired_claim_can_be_claimed_by_another_user(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    let_pass(interrupt)
    assert services.claim(interrupt.pk, by=sam).claimed_by_label == "sam"
    assert verbs() == []


def test_take_over_with_permission_moves_claim_and_writes_audit_entry(
    interrupt: Interrupt, reviewer: User, lead: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    with pytest.raises(ClaimedError):
        services.claim(interrupt.pk, by=lead)
    info = services.claim(interrupt.pk, by=lead, via="admin", take_over=True)
    assert (info.claimed_by_label, again(interrupt).claimed_by) == ("lea", lead)
    entry = AuditEntry.objects.get(verb="take_over")
    assert (entry.actor, entry.subject, entry.via) == (lead, str(interrupt.pk), "admin")
    assert entry.detail["from"] == "rita"
    assert audit.find_first_fault(Thread.objects.get()) is None


def test_take_over_of_unclaimed_interrupt_claims_it_without_audit_entry(
    interrupt: Interrupt, lead: User
) -> None:
    assert services.claim(interrupt.pk, by=lead, take_over=True).claimed_by_label == "lea"
    assert verbs() == []


@pytest.mark.promise("P18")
def test_take_over_without_permission_raises_not_allowed_error_and_preserves_claim(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    with pytest.raises(NotAllowedError):
        services.claim(interrupt.pk, by=sam, take_over=True)
    assert again(interrupt).claimed_by == reviewer
    assert verbs() == ["refuse"]


@pytest.mark.promise("P18")
@pytest.mark.parametrize(
    ("codenames", "error"),
    [(("decide_interrupt",), InterruptNotFound), (("view_interrupt",), NotAllowedError)],
)
def test_claim_without_view_or_decide_permission_raises_not_found_or_not_allowed_error(
    codenames: tuple[str, ...],
    error: type[Exception],
    interrupt: Interrupt,
    user: Callable[..., User],
) -> None:
    nosy = user("nosy", *codenames)
    with pytest.raises(error):
        services.claim(interrupt.pk, by=nosy)
    assert services.claim_next(by=nosy) is None
    assert again(interrupt).claimed_by is None


@pytest.mark.promise("P18")
def test_claim_of_decided_interrupt_without_decide_permission_raises_not_allowed_error(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    services.decide(interrupt.pk, "approve")
    with pytest.raises(NotAllowedError):
        services.claim(interrupt.pk, by=user("vera", "view_interrupt"))


def test_claim_and_claim_next_without_user_raise_value_error(interrupt: Interrupt) -> None:
    with pytest.raises(ValueError, match="Claiming requires a user"):
        services.claim(interrupt.pk, by=None)
    with pytest.raises(ValueError, match="Claiming requires a user"):
        services.claim_next(by=None)


def test_claim_of_decided_interrupt_raises_already_decided_error_with_the_decision(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    info = services.decide(interrupt.pk, "approve", by=sam)
    with pytest.raises(AlreadyDecidedError) as refused:
        services.claim(interrupt.pk, by=reviewer)
    assert refused.value.decision == info


@pytest.mark.parametrize("end", ["decide", "cancel", "expire", "supersede"])
def test_claim_on_interrupt_is_cleared_when_interrupt_is_closed(
    end: str, interrupt: Interrupt, reviewer: User, advance: Advance
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    if end == "decide":
        services.decide(interrupt.pk, "approve", by=reviewer)
    elif end == "cancel":
        services.cancel(interrupt.run_id)
    elif end == "expire":
        terms = {"seconds": 1, "then": "park", "answer": None}
        Interrupt.objects.update(expires_at=Now() - MINUTE, expiry=terms)
        services.expire_due()
    else:
        thread_id = interrupt.thread.thread_id
        services.start("approval", {"text": "y"}, thread_id=thread_id, on_pending="discard")
    row = again(interrupt)
    assert row.status != "pending"
    assert (row.claimed_by, row.claimed_by_label, row.claimed_until) == (None, "", None)


def test_interrupt_released_by_its_claimant_can_be_claimed_by_another_user(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    services.release(interrupt.pk, by=reviewer)
    assert again(interrupt).claimed_until is None
    services.release(interrupt.pk, by=reviewer)  # the second call changes nothing
    assert services.claim(interrupt.pk, by=sam).claimed_by_label == "sam"
    assert verbs() == []


def test_release_of_another_users_claim_without_permission_raises_not_allowed_error(
    interrupt: Interrupt, reviewer: User, sam: User, lead: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    with pytest.raises(NotAllowedError):
        services.release(interrupt.pk, by=sam)
    assert again(interrupt).claimed_by == reviewer
    services.release(interrupt.pk, by=lead, via="api")
    assert again(interrupt).claimed_by is None
    entry = AuditEntry.objects.get(verb="release")
    assert (entry.actor, entry.via, entry.detail["from"]) == (lead, "api", "rita")


def test_claim_of_deleted_user_blocks_claims_by_other_users_until_its_end_time(
    interrupt: Interrupt, reviewer: User, sam: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    reviewer.delete()
    # The claim protects the interrupt until it expires.
    with pytest.raises(ClaimedError, match="rita"):
        services.claim(interrupt.pk, by=sam)
    let_pass(interrupt)
    assert services.claim(interrupt.pk, by=sam).claimed_by_label == "sam"


class TestClaimNext:
    """Claims of the best unclaimed interrupt, with at most one user for each interrupt."""

    @pytest.fixture
    def ask(self, advance: Advance) -> Callable[..., Interrupt]:
        def make(**changes: Any) -> Interrupt:
            row = asked("approval", {"text": "x"}, advance)
            Interrupt.objects.filter(pk=row.pk).update(**changes)
            return again(row)

        return make

    def test_claim_next_orders_interrupts_by_overdue_priority_due_date_and_age(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        old = ask()
        new = ask()
        late = ask(due_at=Now() + MINUTE * 120)
        soon = ask(due_at=Now() + MINUTE * 60)
        low = ask(priority=-1, due_at=Now() + MINUTE * 60)
        urgent = ask(priority=5)
        overdue = ask(priority=-5, due_at=Now() - MINUTE)
        taken = [services.claim_next(by=reviewer) for _ in range(8)]
        expected = [overdue, urgent, soon, late, old, new, low]
        assert taken == [*(row.pk for row in expected), None]
        assert Interrupt.objects.get(pk=overdue.pk).overdue
        assert set(Interrupt.objects.values_list("claimed_by", flat=True)) == {reviewer.pk}

    @pytest.mark.promise("P2")
    def test_claim_next_with_repeated_key_returns_the_same_interrupt(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        rows = [ask() for _ in range(4)]
        assert services.find_claimed("k", by=reviewer) is None
        assert services.claim_next(by=reviewer, key="k") == rows[0].pk
        assert services.claim_next(by=sam, key="k") == rows[1].pk  # a separate idempotency key
        assert services.claim_next(by=reviewer, key="l") == rows[2].pk
        services.decide(rows[0].pk, "approve", by=reviewer)
        assert services.claim_next(by=reviewer, key="k") == rows[0].pk
        assert services.find_claimed("k", by=reviewer) == rows[0].pk
        for other in ({"graph": "approval"}, {"group": 7}):
            with pytest.raises(IdempotencyKeyReusedError):
                services.claim_next(by=reviewer, key="k", **other)
        assert services.claim_next(by=reviewer) == rows[3].pk
        assert services.claim_next(by=reviewer, key="m") is None

    def test_claim_next_with_key_of_interrupt_claimed_by_another_user_returns_next_interrupt(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        first = ask()
        services.claim_next(by=reviewer, key="k")
        Interrupt.objects.update(claimed_until=Now() - MINUTE)
        second = ask()
        assert services.claim_next(by=sam) == first.pk
        assert services.claim_next(by=reviewer, key="k") == second.pk

    def test_claim_next_skips_claimed_snoozed_assigned_and_closed_interrupts(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        crew = Group.objects.create(name="Crew")
        ask(claimed_by=sam, claimed_by_label="sam", claimed_until=Now() + MINUTE)
        ask(snoozed_until=Now() + MINUTE)
        ask(assignee=sam)
        ask(group=crew)
        ask(status="cancelled")
        assert services.claim_next(by=reviewer) is None
        reviewer.groups.add(crew)
        assert services.claim_next(by=reviewer) == Interrupt.objects.get(group=crew).pk

    def test_claim_next_returns_interrupt_with_expired_claim_or_snooze(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        held = ask(claimed_by=sam, claimed_by_label="sam", claimed_until=Now() - MINUTE)
        snoozed = ask(snoozed_until=Now() - MINUTE)
        assert {services.claim_next(by=reviewer) for _ in range(2)} == {held.pk, snoozed.pk}

    def test_claim_next_returns_interrupt_assigned_to_user_although_user_is_not_in_its_group(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        own = ask(assignee=reviewer, group=Group.objects.create(name="Others"))
        assert services.claim_next(by=reviewer) == own.pk

    def test_claim_next_skips_interrupt_of_parked_run(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        row = ask()
        Run.objects.update(state=Run.State.PARKED)
        assert services.claim_next(by=reviewer) is None
        Run.objects.update(state=Run.State.INTERRUPTED)
        assert services.claim_next(by=reviewer) == row.pk

    def test_claim_next_skips_interrupt_already_approved_by_the_user(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        row = ask(quorum=2)
        Decision.objects.create(
            interrupt=row, version=row.version, effective=None, type="approve", value=True,
            by=reviewer, by_label="rita", via="api", request_digest="1", payload_digest="1",
        )  # fmt: skip
        assert services.claim_next(by=reviewer) is None
        assert services.claim_next(by=sam) == row.pk

    def test_claim_next_skips_only_the_interrupt_version_that_the_user_approved(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        first, second = ask(quorum=2), ask(quorum=2)
        services.decide(first.pk, "approve", by=reviewer)
        assert services.queue_counts(reviewer).unclaimed == 1
        assert services.claim_next(by=reviewer) == second.pk
        assert services.claim_next(by=reviewer) is None
        services.decide(first.pk, "respond", "Later", by=sam)  # which changes the version
        assert services.queue_counts(reviewer).unclaimed == 1
        assert services.claim_next(by=reviewer) == first.pk

    def test_claim_next_skips_interrupt_that_forbids_approval_by_the_run_starter(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        rows = [ask(no_self_approval=True), ask(no_self_approval=False)]
        Run.objects.update(started_by=reviewer)
        assert services.queue_counts(reviewer).unclaimed == 1
        assert [services.claim_next(by=reviewer) for _ in range(2)] == [rows[1].pk, None]
        assert services.claim_next(by=sam) == rows[0].pk

    def test_claim_next_returns_interrupt_that_forbids_self_approval_if_run_has_no_starter(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        row = ask(no_self_approval=True)
        assert services.claim_next(by=reviewer) == row.pk

    def test_claim_next_with_graph_or_group_returns_only_matching_interrupts(
        self, ask: Callable[..., Interrupt], reviewer: User, advance: Advance
    ) -> None:
        crew = Group.objects.create(name="Crew")
        reviewer.groups.add(crew)
        ask()
        other = asked("patient", {"log": []}, advance)
        grouped = ask(group=crew)
        assert services.claim_next(by=reviewer, graph="patient") == other.pk
        assert services.claim_next(by=reviewer, graph="patient") is None
        assert services.claim_next(by=reviewer, group=crew) == grouped.pk

    def test_claim_next_returns_first_of_many_candidates_allowed_by_custom_policy(
        self, advance: Advance, reviewer: User
    ) -> None:
        first = asked("approval", {"text": "x"}, advance)
        copies = [again(first) for _ in range(25)]
        for number, copy in enumerate(copies):
            copy.pk, copy.interrupt_id, copy.title = None, str(number), f"odd {number}"
        Interrupt.objects.bulk_create(copies)
        Interrupt.objects.filter(pk=first.pk).update(title="even", priority=-1)
        with override_settings(HITL={"POLICY": "tests.services.test_claims.EvenOnly"}):
            assert services.claim_next(by=reviewer) == first.pk
            assert services.claim_next(by=reviewer) is None


class EvenOnly(ModelPermissionPolicy):
    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        return interrupt.title == "even"


@pytest.mark.promise("P18")
@pytest.mark.parametrize("meanwhile", ["assigned", "put off", "stopped"])
def test_claim_next_skips_interrupt_changed_during_its_permission_check(
    interrupt: Interrupt,
    reviewer: User,
    sam: User,
    meanwhile: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes: dict[str, Callable[[], Any]] = {
        "assigned": lambda: services.assign(interrupt.pk, to=sam),
        "put off": lambda: services.snooze(interrupt.pk, until=now() + MINUTE),
        "stopped": lambda: Run.objects.update(state=Run.State.PARKED),
    }

    def may_decide(policy: Any, user: User, row: Interrupt) -> bool:
        monkeypatch.undo()
        changes[meanwhile]()
        return True

    monkeypatch.setattr(ModelPermissionPolicy, "may_decide", may_decide)
    assert services.claim_next(by=reviewer) is None
    assert again(interrupt).claimed_by is None


@pytest.mark.parametrize("verb", ["claim", "release"])
def test_take_over_and_release_lock_thread_before_writing_the_interrupt(
    interrupt: Interrupt, reviewer: User, lead: User, verb: str
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    with CaptureQueriesContext(connection) as queries:
        if verb == "claim":
            services.claim(interrupt.pk, by=lead, take_over=True)
        else:
            services.release(interrupt.pk, by=lead)
    texts = [query["sql"] for query in queries]
    locks = [at for at, text in enumerate(texts) if text.startswith('SELECT "hitl_django_thread"')]
    writes = [at for at, text in enumerate(texts) if 'UPDATE "hitl_django_interrupt"' in text]
    assert locks[0] < writes[0]


def test_claimed_error_says_claimed_a_moment_ago_if_the_claim_has_been_released_meanwhile(
    interrupt: Interrupt, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "write_claim", lambda *_: 0)
    with pytest.raises(ClaimedError, match="a moment ago") as refused:
        services.claim(interrupt.pk, by=reviewer)
    assert refused.value.until is not None


def after_finding(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call a function once, after the named interrupt has been looked up."""
    find = lookup.find

    def and_then(*args: Any) -> Interrupt:
        found = find(*args)
        monkeypatch.setattr(lookup, "find", find)
        act()
        return found

    monkeypatch.setattr(lookup, "find", and_then)


@pytest.mark.promise("P18")
def test_release_after_concurrent_take_over_preserves_the_new_claim(
    interrupt: Interrupt, reviewer: User, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    after_finding(monkeypatch, lambda: services.claim(interrupt.pk, by=lead, take_over=True))
    services.release(interrupt.pk, by=reviewer)
    assert again(interrupt).claimed_by == lead


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_release_of_expired_claim_writes_no_audit_entry_and_changes_no_row(
    interrupt: Interrupt, reviewer: User, sam: User, lead: User, when: str, monkeypatch: Any
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    if when == "before":
        let_pass(interrupt)
        services.release(interrupt.pk, by=sam)  # who has no permission to take over claims
    else:
        lock = leases.lock_thread

        def lock_later(**which: Any) -> Thread:
            let_pass(interrupt)
            return lock(**which)

        monkeypatch.setattr(leases, "lock_thread", lock_later)
        services.release(interrupt.pk, by=lead)
    assert verbs() == []
    assert again(interrupt).claimed_by == reviewer


def test_release_ends_claim_that_the_user_took_over_just_before_the_lock(
    interrupt: Interrupt, reviewer: User, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.claim(interrupt.pk, by=lead)

    def change_hands() -> None:
        let_pass(interrupt)
        services.claim(interrupt.pk, by=reviewer)

    after_finding(monkeypatch, change_hands)
    services.release(interrupt.pk, by=reviewer)
    assert again(interrupt).claimed_by is None
    assert verbs() == ["release"]


def test_claim_next_with_key_locks_only_the_account_of_the_claiming_user(
    interrupt: Interrupt, reviewer: User
) -> None:
    with CaptureQueriesContext(connection) as queries:
        services.claim_next(by=reviewer, key="k")
    (locked,) = [query["sql"] for query in queries if 'FROM "auth_user" WHERE' in query["sql"]]
    assert f'"auth_user"."id" = {reviewer.pk}' in locked


@pytest.mark.django_db(transaction=True)
def test_claim_next_locks_user_and_writes_claim_in_one_transaction(
    interrupt: Interrupt, reviewer: User
) -> None:
    inside: list[bool] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if 'UPDATE "hitl_django_interrupt"' in sql or 'FROM "auth_user" WHERE' in sql:
            inside.append(connection.in_atomic_block)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        assert services.claim_next(by=reviewer, key="k") == interrupt.pk
    assert inside == [True, True]


def test_claim_next_for_group_skips_interrupt_assigned_to_user_and_another_group(
    interrupt: Interrupt, reviewer: User
) -> None:
    crew, others = (Group.objects.create(name=name) for name in ("Crew", "Others"))
    reviewer.groups.add(crew)
    Interrupt.objects.update(assignee=reviewer, group=others)
    assert services.claim_next(by=reviewer, group=crew) is None
    assert services.claim_next(by=reviewer, group=others) == interrupt.pk


def test_claim_next_finds_allowed_interrupt_behind_several_batches_of_candidates(
    interrupt: Interrupt, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [again(interrupt) for _ in range(9)]
    for number, copy in enumerate(copies):
        copy.pk, copy.interrupt_id, copy.title = None, str(number), "odd"
    Interrupt.objects.bulk_create(copies)
    Interrupt.objects.filter(pk=interrupt.pk).update(title="even", priority=-1)
    monkeypatch.setattr(claim, "FEW", 2)
    monkeypatch.setattr(claim, "MANY", 3)
    monkeypatch.setattr(claim, "MOST", 12)
    with override_settings(HITL={"POLICY": f"{__name__}.EvenOnly"}):
        assert services.claim_next(by=reviewer) == interrupt.pk


class Narrowing(ModelPermissionPolicy):
    """A policy that shows all interrupts, but in another queryset."""

    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        assert interrupts.count() == len(interrupts)  # evaluates the queryset
        return super().visible_interrupts(user, interrupts).all()


@pytest.mark.parametrize(
    ("graph", "group", "expected"),
    [
        (None, None, "10 1 0 2 3 4 8"),
        ("approval", None, "10 1 0 2 3 8"),
        (None, "Crew", "2 3 4"),
        (None, "Other", "1"),
    ],
)
def test_claim_next_order_is_the_same_for_policy_that_narrows_the_queue(
    interrupt: Interrupt,
    reviewer: User,
    sam: User,
    graph: str | None,
    group: str | None,
    expected: str,
) -> None:
    crew, desk, other = (Group.objects.create(name=name) for name in ("Crew", "Desk", "Other"))
    reviewer.groups.set([crew, desk])
    changes: list[dict[str, Any]] = [
        {"priority": 1, "group": desk},
        {"priority": 2, "assignee": reviewer, "group": other},
        {"group": crew, "due_at": now() + MINUTE},
        {"group": crew, "assignee": reviewer},
        {"graph": "other", "group": crew},
        {"group": crew, "assignee": sam},
        {"group": other},
        {"claimed_by": sam, "claimed_until": now() + MINUTE},
        {"claimed_by": sam, "claimed_until": now() - MINUTE},
        {"snoozed_until": now() + MINUTE},
        {"overdue": True, "no_self_approval": True},
    ]
    for number, changed in enumerate(changes):
        copy = again(interrupt)
        copy.pk, copy.interrupt_id, copy.title = None, str(number), str(number)
        for name, value in changed.items():
            setattr(copy, name, value)
        copy.save()
    Interrupt.objects.filter(pk=interrupt.pk).update(status="cancelled")
    wanted = None if group is None else Group.objects.get(name=group)

    def take_all() -> str:
        Interrupt.objects.filter(claimed_by=reviewer).update(claimed_by=None, claimed_until=None)
        taken = [services.claim_next(by=reviewer, graph=graph, group=wanted) for _ in range(9)]
        titles = dict(Interrupt.objects.values_list("pk", "title"))
        return " ".join(titles[pk] for pk in taken if pk)

    assert take_all() == expected
    with override_settings(HITL={"POLICY": f"{__name__}.Narrowing"}):
        assert take_all() == expected


@pytest.mark.promise("P18")
@pytest.mark.parametrize("meanwhile", [{"claimed_until": Now() + MINUTE}, {"status": "cancelled"}])
def test_claim_next_skips_interrupt_claimed_or_closed_just_before_the_write(
    advance: Advance, reviewer: User, meanwhile: dict[str, Any]
) -> None:
    first, second = (asked("approval", {"text": "x"}, advance) for _ in range(2))
    done: list[bool] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not done and 'UPDATE "hitl_django_interrupt"' in sql:
            done.append(True)
            Interrupt.objects.filter(pk=first.pk).update(**meanwhile)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        assert services.claim_next(by=reviewer) == second.pk
    assert done
    assert again(first).claimed_by is None


class TestClaimNextAfterDecision:
    """The claim of the next interrupt after a decision or a skip."""

    @pytest.fixture
    def ask(self, advance: Callable[[], int]) -> Callable[..., Interrupt]:
        def make(graph: str = "approval", **changes: Any) -> Interrupt:
            row = asked(graph, {"text": "x"} if graph == "approval" else {}, advance)
            Interrupt.objects.filter(pk=row.pk).update(**changes)
            return again(row)

        return make

    def test_claim_next_gives_two_reviewers_different_interrupts(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        rows = [ask().pk for _ in range(6)]
        at: dict[User, Any] = {one: services.claim_next(by=one) for one in (reviewer, sam)}
        decided = []
        while any(at.values()):
            for one, pk in at.items():
                if pk is not None:
                    services.decide(pk, "approve", by=one)
                    decided.append(pk)
                    at[one] = services.claim_next(by=one, after=pk)
                    assert at[reviewer] != at[sam] or at[sam] is None
        assert decided == rows

    def test_claim_next_after_interrupt_prefers_interrupts_of_the_same_thread(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        other = ask(priority=9)
        first = ask("panel")
        beside = Interrupt.objects.filter(run=first.run).exclude(pk=first.pk).get()
        services.decide(first.pk, "respond", "yes", by=reviewer)
        assert services.claim_next(by=reviewer, after=first.pk) == beside.pk
        assert again(beside).claimed_by == reviewer
        # A skipped interrupt's thread is skipped too.
        assert services.claim_next(by=reviewer, after=beside.pk) == other.pk

    def test_claim_next_after_interrupt_skips_claimed_interrupts_of_the_same_thread(
        self, ask: Callable[..., Interrupt], reviewer: User, sam: User
    ) -> None:
        other = ask()
        first = ask("panel")
        beside = Interrupt.objects.filter(run=first.run).exclude(pk=first.pk).get()
        services.claim(beside.pk, by=sam)
        services.decide(first.pk, "respond", "yes", by=reviewer)
        assert services.claim_next(by=reviewer, after=first.pk) == other.pk

    def test_claim_next_after_interrupt_prefers_unclaimed_interrupts_to_those_claimed_by_the_user(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        first, second, third = (ask() for _ in range(3))
        assert services.claim_next(by=reviewer, after=first.pk) == second.pk
        assert services.claim_next(by=reviewer, after=second.pk) == first.pk
        assert services.claim_next(by=reviewer, after=first.pk) == third.pk
        # The user has claimed all remaining interrupts, so the claim that expires first is renewed.
        Interrupt.objects.filter(pk=first.pk).update(claimed_until=Now() + MINUTE)
        assert services.claim_next(by=reviewer, after=third.pk) == first.pk
        assert again(first).claimed_until > now() + timedelta(minutes=10)
        assert services.claim_next(by=reviewer) is None

    def test_claim_renewed_by_claim_next_without_key_can_still_be_found_by_its_key(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        first, second = ask(), ask()
        assert services.claim_next(by=reviewer, key="k") == first.pk
        services.claim(second.pk, by=reviewer)
        assert services.claim_next(by=reviewer, after=second.pk) == first.pk
        assert services.find_claimed("k", by=reviewer) == first.pk

    def test_claim_next_after_malformed_id_raises_not_found_but_after_unknown_id_claims_first(
        self, ask: Callable[..., Interrupt], reviewer: User
    ) -> None:
        ask()
        with pytest.raises(InterruptNotFound):
            services.claim_next(by=reviewer, after="nonsense")
        assert services.claim_next(by=reviewer, after=uuid4()) is not None


class TestDecisionOverClaim:
    def test_decision_on_claimed_interrupt_stores_claimant_in_decision_and_audit_log(
        self, interrupt: Interrupt, reviewer: User, sam: User
    ) -> None:
        services.claim(interrupt.pk, by=sam)
        made = services.decide(interrupt.pk, "approve", by=reviewer, reason="It is urgent.")
        assert made.claimed_by_label == Decision.objects.get().claimed_by_label == "sam"
        entry = AuditEntry.objects.get(verb="decide")
        assert entry.detail["claimed_by"] == "sam"
        assert audit.find_first_fault(interrupt.thread) is None
        entry.detail.pop("claimed_by")
        entry.save()
        assert audit.find_first_fault(interrupt.thread) == entry.seq

    def test_decision_with_ignore_claim_false_on_claimed_interrupt_raises_claimed_error(
        self, interrupt: Interrupt, reviewer: User, sam: User, unchanged: Callable[..., None]
    ) -> None:
        services.claim(interrupt.pk, by=sam)
        unchanged()
        for by in (reviewer, None):
            with pytest.raises(ClaimedError) as refused:
                services.decide(interrupt.pk, "approve", by=by, ignore_claim=False, key="k")
            assert refused.value.claimed_by_label == "sam"
        unchanged()
        # A confirmed request has the same key, so a repetition returns the same result for any
        # user.
        made = services.decide(interrupt.pk, "approve", by=reviewer, key="k")
        again = services.decide(interrupt.pk, "approve", by=reviewer, key="k", ignore_claim=False)
        assert (again.id, again.repeated) == (made.id, True)

    def test_decision_with_invalid_response_on_claimed_interrupt_raises_invalid_answer_error(
        self, interrupt: Interrupt, reviewer: User, sam: User
    ) -> None:
        services.claim(interrupt.pk, by=sam)
        with pytest.raises(InvalidAnswerError):
            services.decide(interrupt.pk, "approve", 7, by=reviewer, ignore_claim=False)

    def test_decision_has_no_claimant_if_claim_is_expired_or_belongs_to_the_deciding_user(
        self, advance: Advance, reviewer: User, sam: User
    ) -> None:
        for holder, lapsed in ((reviewer, False), (sam, True)):
            row = asked("approval", {"text": "x"}, advance)
            services.claim(row.pk, by=holder)
            if lapsed:
                let_pass(row)
            made = services.decide(row.pk, "approve", by=reviewer, ignore_claim=False)
            assert made.claimed_by_label == ""
        assert not [e for e in AuditEntry.objects.all() if "claimed_by" in e.detail]

    def test_approval_of_claimed_interrupt_below_quorum_stores_claimant_in_audit_log(
        self, interrupt: Interrupt, reviewer: User, sam: User
    ) -> None:
        Interrupt.objects.filter(pk=interrupt.pk).update(quorum=2)
        services.claim(interrupt.pk, by=sam)
        made = services.decide(interrupt.pk, "approve", by=reviewer)
        assert (made.complete, made.claimed_by_label) == (False, "sam")
        assert AuditEntry.objects.get(verb="approve").detail["claimed_by"] == "sam"
