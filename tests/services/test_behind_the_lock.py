"""Conditions are checked again after the lock is acquired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from hitl_django import Expiry, audit, leases, services
from hitl_django.audit import entries
from hitl_django.contrib.links.errors import LinkNotFound, LinkUnusableError
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import (
    LinkInfo,
    create_review_link,
    decide_by_link,
    revoke_link,
)
from hitl_django.engine.errors import HitlError
from hitl_django.errors import ClaimedError, InterruptNotFound, NotAllowedError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.services.reviews import decide
from tests import graphs
from tests.chaos import invariants

from .conftest import asked

Advance = Callable[[], int]
Make = Callable[..., User]
DAY = timedelta(days=1)


class Revocable(ModelPermissionPolicy):
    """Django's permissions, except revoked permissions."""

    withdrawn: ClassVar[set[str]] = set()

    def may_assign(self, user: Any, interrupt: Interrupt) -> bool:
        return self.may_decide(user, interrupt)

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        return interrupts.none() if "see" in self.withdrawn else interrupts

    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        return "decide" not in self.withdrawn

    def may_operate(self, user: Any, run: Run) -> bool:
        return "operate" not in self.withdrawn

    def may_take_over(self, user: Any, interrupt: Interrupt) -> bool:
        return "take over" not in self.withdrawn


@pytest.fixture
def revocable(settings: Any) -> Iterator[set[str]]:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Revocable"}
    yield Revocable.withdrawn
    Revocable.withdrawn.clear()


def before_the_lock(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call a function once, immediately before the next thread is locked."""
    lock = leases.lock_thread

    def and_then(**which: Any) -> Thread:
        monkeypatch.setattr(leases, "lock_thread", lock)
        act()
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", and_then)


def after_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call a function once, after the next decision has read its interrupt."""
    read = decide._read

    def and_then(pk: UUID) -> Any:
        found = read(pk)
        monkeypatch.setattr(decide, "_read", read)
        act()
        return found

    monkeypatch.setattr(decide, "_read", and_then)


@contextmanager
def before_writing(table: str, act: Callable[[], object]) -> Iterator[None]:
    """Call a function once, immediately before the next UPDATE of a table."""
    done: list[bool] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not done and f'UPDATE "{table}"' in sql:
            done.append(True)
            act()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        yield
    assert done, f"nothing was written to {table}"


def reviewed(advance: Advance, **terms: Any) -> Interrupt:
    return asked("reviewed", {"payload": {"amount": 5}, "terms": terms}, advance)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("quorum", [1, 2])
def test_decision_without_permission_raises_not_allowed_or_not_found_and_stores_no_decision(
    advance: Advance, user: Make, quorum: int
) -> None:
    interrupt = reviewed(advance, quorum=quorum)
    for name in ("ann", "bob"):
        with pytest.raises(NotAllowedError):
            services.decide(interrupt.pk, "approve", by=user(name, "view_interrupt"))
    for blind in (user("cai", "decide_interrupt"), user("dan")):
        with pytest.raises(InterruptNotFound):
            services.decide(interrupt.pk, "approve", by=blind)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.approvals) == ("pending", 0)
    assert not Decision.objects.exists()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("quorum", [1, 2])
@pytest.mark.parametrize(
    ("right", "error"), [("see", InterruptNotFound), ("decide", NotAllowedError)]
)
def test_decision_whose_permission_is_revoked_just_before_the_lock_raises_not_allowed_or_not_found(
    advance: Advance,
    reviewer: User,
    revocable: set[str],
    monkeypatch: pytest.MonkeyPatch,
    right: str,
    error: type[HitlError],
    quorum: int,
) -> None:
    interrupt = reviewed(advance, quorum=quorum)
    # A decision on a version after the first always waits for the thread's lock.
    Interrupt.objects.update(version=2)
    before_the_lock(monkeypatch, lambda: revocable.add(right))
    with pytest.raises(error):
        services.decide(interrupt.pk, "approve", by=reviewer)
    assert not Decision.objects.exists()
    revocable.clear()
    assert services.decide(interrupt.pk, "approve", by=reviewer).type == "approve"


#: Operations whose permission is revoked while the operation waits for the thread's lock.
WAITING: dict[str, tuple[str, Callable[[Interrupt, User], object]]] = {
    "cancel": ("operate", lambda interrupt, by: services.cancel(interrupt.run_id, by=by)),
    "fork": (
        "operate",
        lambda interrupt, by: services.fork(
            interrupt.thread.thread_id, interrupt.checkpoint_id, by=by
        ),
    ),
    "claim": (
        "take over",
        lambda interrupt, by: services.claim(interrupt.pk, by=by, take_over=True),
    ),
    "release": ("take over", lambda interrupt, by: services.release(interrupt.pk, by=by)),
}


@pytest.mark.promise("P18")
@pytest.mark.parametrize("verb", WAITING)
def test_service_call_whose_permission_is_revoked_just_before_the_lock_raises_not_allowed_error(
    advance: Advance,
    user: Make,
    revocable: set[str],
    monkeypatch: pytest.MonkeyPatch,
    unchanged: Callable[..., None],
    verb: str,
) -> None:
    interrupt = reviewed(advance)
    services.claim(interrupt.pk, by=user("bob", "view_interrupt", "decide_interrupt"))
    by = user("olga", "view_interrupt", "decide_interrupt", "view_run", "view_thread")
    right, act = WAITING[verb]
    unchanged()
    before_the_lock(monkeypatch, lambda: revocable.add(right))
    with pytest.raises(NotAllowedError):
        act(interrupt, by)
    unchanged(refused=1)
    revocable.clear()
    act(interrupt, by)


class Watchful(ModelPermissionPolicy):
    """Policy that stores whether it was called within a transaction."""

    asked: ClassVar[list[bool]] = []

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        self.asked.append(connection.in_atomic_block)
        return interrupts

    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        self.asked.append(connection.in_atomic_block)
        return True


@pytest.mark.promise("P18")
@pytest.mark.parametrize("quorum", [1, 2])
@pytest.mark.django_db(transaction=True)
def test_decide_checks_view_and_decide_permission_inside_the_writing_transaction(
    advance: Advance, reviewer: User, settings: Any, quorum: int
) -> None:
    interrupt = reviewed(advance, quorum=quorum)
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Watchful"}
    Watchful.asked.clear()
    services.decide(interrupt.pk, "approve", by=reviewer)
    assert Watchful.asked == [True, True]


@pytest.mark.promise("P20")
def test_decision_after_concurrent_audit_entry_extends_the_audit_log_of_the_thread(
    advance: Advance, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, interrupt = (asked("approval", {"text": "x"}, advance) for _ in range(2))
    assert other.thread.audit_seq == interrupt.thread.audit_seq
    after_reading(
        monkeypatch, lambda: services.assign(interrupt.pk, to=reviewer, by=None, via="code")
    )
    assert services.decide(interrupt.pk, "approve").complete
    verbs = AuditEntry.objects.filter(thread=interrupt.thread).order_by("seq")
    assert [*verbs.values_list("verb", flat=True)][-2:] == ["assign", "decide"]
    assert [audit.find_first_fault(thread) for thread in Thread.objects.all()] == [None, None]


def test_decision_after_claim_passed_to_another_user_raises_claimed_error(
    advance: Advance, reviewer: User, user: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = reviewed(advance, claim_required=True)
    other = user("bob", "view_interrupt", "decide_interrupt")
    services.claim(interrupt.pk, by=reviewer)

    def change_hands() -> None:
        services.release(interrupt.pk, by=reviewer)
        services.claim(interrupt.pk, by=other)

    after_reading(monkeypatch, change_hands)
    with pytest.raises(ClaimedError, match="bob"):
        services.decide(interrupt.pk, "approve", by=reviewer)
    assert services.decide(interrupt.pk, "approve", by=other).complete


@pytest.mark.promise("P4")
def test_decision_made_while_run_is_pausing_queues_the_run(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("panel", {"log": []}, advance)
    first, second = Interrupt.objects.order_by("task_path")
    services.decide(first.pk, "respond", "yes")
    assert Run.objects.get().state == "queued"
    after_reading(monkeypatch, advance)
    services.decide(second.pk, "respond", "no")
    assert Run.objects.get().state == "queued"
    advance()
    assert Run.objects.get().state == "succeeded"


def test_last_required_approval_on_concurrently_parked_run_raises_hitl_error_and_stores_no_decision(
    advance: Advance, reviewer: User
) -> None:
    interrupt = reviewed(advance, quorum=2)
    services.decide(interrupt.pk, "approve")
    with (
        before_writing("hitl_django_run", lambda: Run.objects.update(state="parked")),
        pytest.raises(HitlError),
    ):
        services.decide(interrupt.pk, "approve", by=reviewer)
    interrupt.refresh_from_db()
    assert (interrupt.status, Decision.objects.count()) == ("pending", 1)


@pytest.mark.parametrize(
    "changes",
    [{"status": "superseded"}, {"version": F("version") + 1}, {"approvals": F("approvals") + 1}],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("type_", ["approve", "edit", "reject"])
@pytest.mark.promise("P1")
def test_decision_on_interrupt_changed_just_before_the_write_raises_error_and_stores_no_decision(
    advance: Advance, reviewer: User, changes: dict[str, Any], type_: str
) -> None:
    interrupt = reviewed(advance, quorum=3)
    with (
        before_writing("hitl_django_interrupt", lambda: Interrupt.objects.update(**changes)),
        pytest.raises(HitlError),
    ):
        services.decide(interrupt.pk, type_, *SENT[type_], by=reviewer)
    assert not Decision.objects.exists()


SENT: dict[str, tuple[Any, ...]] = {"approve": (), "edit": ({"amount": 6},), "reject": ()}


@pytest.mark.parametrize("first", SENT)
@pytest.mark.parametrize("second", SENT)
@pytest.mark.promise("P1")
def test_decision_raises_error_if_another_user_changes_the_approvals_just_before_the_write(
    advance: Advance, user: Make, reviewer: User, first: str, second: str
) -> None:
    interrupt = reviewed(advance, quorum=2)
    other = user("bob", "view_interrupt", "decide_interrupt")
    overtaking: list[bool] = []

    def overtake() -> None:
        overtaking.append(services.decide(interrupt.pk, first, *SENT[first], by=other).complete)

    with before_writing("hitl_django_interrupt", overtake), pytest.raises(HitlError):
        services.decide(interrupt.pk, second, *SENT[second], by=reviewer)
    # Both run in one transaction in this test, so the rollback also reverts the other approval.
    assert overtaking == [first == "reject"]
    assert not Decision.objects.exists()
    assert services.decide(interrupt.pk, second, *SENT[second], by=reviewer).approvals <= 1
    assert invariants.faults() == []


def overdue(advance: Advance, **terms: Any) -> Interrupt:
    graphs.PATIENCE[:] = [Expiry(DAY, **terms)]
    interrupt = asked("patient", {"log": []}, advance)
    graphs.PATIENCE.clear()
    Interrupt.objects.filter(pk=interrupt.pk).update(expires_at=F("expires_at") - DAY)
    return interrupt


@pytest.mark.promise("P1")
def test_expire_due_skips_interrupt_decided_just_before_the_lock(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = overdue(advance)
    before_the_lock(monkeypatch, lambda: services.decide(interrupt.pk, "respond", {"seats": 2}))
    assert services.expire_due() == 0
    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().state) == ("decided", "queued")
    assert not AuditEntry.objects.filter(verb="expire").exists()


@pytest.mark.promise("P1")
def test_expire_due_skips_run_whose_decision_can_still_be_undone(
    advance: Advance, reviewer: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    asked("panel", {"log": []}, advance)
    first, second = Interrupt.objects.order_by("task_path")
    Interrupt.objects.filter(pk=second.pk).update(
        expires_at=Now() - DAY, expiry={"seconds": 60, "then": "park"}
    )
    before_the_lock(monkeypatch, lambda: services.decide(first.pk, "respond", "yes", by=reviewer))
    assert services.expire_due() == 0
    second.refresh_from_db()
    assert (second.status, Run.objects.get().state) == ("pending", "interrupted")


def test_expire_due_skips_interrupt_superseded_just_before_the_lock(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = overdue(advance)

    before_the_lock(monkeypatch, lambda: Interrupt.objects.update(status="superseded"))
    assert services.expire_due() == 0
    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().state) == ("superseded", "interrupted")


def test_expire_due_skips_interrupt_whose_expiry_is_postponed_just_before_the_lock(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = overdue(advance)
    before_the_lock(monkeypatch, lambda: Interrupt.objects.update(expires_at=Now() + DAY))
    assert services.expire_due() == 0
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"


def test_expire_due_skips_interrupt_whose_version_changes_just_before_the_write(
    advance: Advance,
) -> None:
    interrupt = overdue(advance)

    def change() -> None:
        Interrupt.objects.update(version=F("version") + 1)

    with before_writing("hitl_django_interrupt", change):
        assert services.expire_due() == 0
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"


LEFT_ALONE: dict[str, Callable[[Interrupt], object]] = {
    "is closed": lambda row: Interrupt.objects.filter(pk=row.pk).update(status="superseded"),
    "is of a run under way": lambda row: Run.objects.filter(pk=row.run_id).update(state="running"),
    "has all the time": lambda row: Interrupt.objects.filter(pk=row.pk).update(expires_at=None),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_expire_due_batch_excludes_interrupts_that_cannot_expire(
    advance: Advance, settings: Any, why: str
) -> None:
    settings.HITL = {**settings.HITL, "SWEEP_BATCH": 1}
    first, second = overdue(advance), overdue(advance)
    Interrupt.objects.filter(pk=first.pk).update(expires_at=F("expires_at") - DAY)
    LEFT_ALONE[why](first)
    assert services.expire_due() == 1
    second.refresh_from_db()
    assert second.status == "expired"


def test_interrupt_expired_by_two_concurrent_sweeps_is_escalated_once(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("children", "elders", "others"):
        Group.objects.create(name=name)
    interrupt = overdue(advance, then="escalate", group="elders")
    before_the_lock(monkeypatch, services.expire_due)
    services.expire_due()
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.overdue) == ("pending", True)
    assert interrupt.group == Group.objects.get(name="elders")
    assert AuditEntry.objects.filter(verb="expire").count() == 1


@pytest.mark.parametrize("state", ["queued", "running", "parked", "cancelled"])
def test_expire_due_skips_interrupt_whose_run_left_the_interrupted_state(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    interrupt = overdue(advance)
    before_the_lock(monkeypatch, lambda: Run.objects.update(state=state))
    assert services.expire_due() == 0
    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().state) == ("pending", state)


def test_default_response_is_not_stored_if_the_run_is_cancelled_just_before_the_write(
    advance: Advance, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt = overdue(advance, then="answer", answer={"seats": 8})
    with before_writing("hitl_django_run", lambda: Run.objects.update(state="cancelled")):
        assert services.expire_due() == 0
    assert "was changed manually" in caplog.text
    interrupt.refresh_from_db()
    assert (interrupt.status, Decision.objects.count()) == ("pending", 0)


def token_of(link: LinkInfo) -> str:
    return link.url.rstrip("/").rpartition("/")[2]


@pytest.fixture
def maker(user: Make) -> User:
    return user("mia", "view_interrupt", "decide_interrupt", "link_interrupt")


#: Changes to a review link that is about to be used, and the resulting message.
OVERTAKEN: dict[str, Callable[[Interrupt, LinkInfo], object]] = {
    "used": lambda interrupt, link: ReviewLink.objects.update(used_at=Now()),
    "expired": lambda interrupt, link: ReviewLink.objects.update(expires_at=F("created_at")),
    "revoked": lambda interrupt, link: revoke_link(link.id),
    "invalid": lambda interrupt, link: User.objects.update(is_active=False),
    "stale": lambda interrupt, link: Interrupt.objects.update(version=F("version") + 1),
    "decided": lambda interrupt, link: services.decide(interrupt.pk, "reject"),
    "closed": lambda interrupt, link: services.cancel(interrupt.run_id),
    "waiting": lambda interrupt, link: Run.objects.update(state="parked"),
    "claimed": lambda interrupt, link: (
        Interrupt.objects.update(claim_required=True),
        services.claim(interrupt.pk, by=User.objects.get(username="rita")),
    ),
}


@pytest.mark.promise("P1")
@pytest.mark.parametrize("state", OVERTAKEN)
def test_decide_by_link_raises_link_unusable_error_if_link_becomes_unusable_just_before_the_lock(
    interrupt: Interrupt,
    maker: User,
    reviewer: User,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    link = create_review_link(interrupt.pk, name="Dana", by=maker)
    before_the_lock(monkeypatch, lambda: OVERTAKEN[state](interrupt, link))
    with pytest.raises(LinkUnusableError) as caught:
        decide_by_link(token_of(link), "approve")
    assert caught.value.state == state
    assert not Decision.objects.filter(via="link").exists()


@pytest.mark.promise("P1")
@pytest.mark.parametrize("moment", ["used_at", "revoked_at", "expires_at"])
def test_decide_by_link_raises_link_unusable_error_if_link_becomes_unusable_just_before_the_write(
    interrupt: Interrupt, moment: str
) -> None:
    token = token_of(create_review_link(interrupt.pk, name="Dana"))

    def end() -> None:
        ReviewLink.objects.update(**{moment: F("created_at")})

    with (
        before_writing("hitl_links_reviewlink", end),
        pytest.raises(LinkUnusableError),
    ):
        decide_by_link(token, "approve")
    interrupt.refresh_from_db()
    assert (interrupt.status, Decision.objects.count()) == ("pending", 0)


@pytest.mark.promise("P1")
@pytest.mark.parametrize("moment", ["used_at", "revoked_at"])
def test_revoke_link_raises_link_unusable_error_if_used_or_revoked_just_before_the_write(
    interrupt: Interrupt, moment: str
) -> None:
    link = create_review_link(interrupt.pk, name="Dana")

    def end() -> None:
        ReviewLink.objects.update(**{moment: F("created_at")})

    with (
        before_writing("hitl_links_reviewlink", end),
        pytest.raises(LinkUnusableError) as caught,
    ):
        revoke_link(link.id)
    assert caught.value.state == {"used_at": "used", "revoked_at": "revoked"}[moment]
    assert not AuditEntry.objects.filter(verb="revoke").exists()


#: Operations, and the permission that each needs.
NEEDED: dict[str, tuple[str, Callable[..., object]]] = {
    "make a link": ("link", lambda interrupt, link, by: create_review_link(
        interrupt.pk, name="Eli", by=by
    )),
    "take a link back": ("revoke", lambda interrupt, link, by: revoke_link(
        link.id, by=by
    )),
    "assign": ("assign", lambda interrupt, link, by: services.assign(interrupt.pk, by=by)),
    "snooze": ("snooze", lambda interrupt, link, by: services.snooze(
        interrupt.pk, until=None, by=by
    )),
    "comment": ("comment", lambda interrupt, link, by: services.comment(
        interrupt.pk, "Hm.", by=by
    )),
}  # fmt: skip


@pytest.mark.promise("P18")
@pytest.mark.parametrize("what", NEEDED)
@pytest.mark.parametrize("right", ["see", "decide"])
def test_assign_or_link_call_after_revoked_permission_raises_not_allowed_or_not_found(
    interrupt: Interrupt,
    user: Make,
    revocable: set[str],
    monkeypatch: pytest.MonkeyPatch,
    unchanged: Callable[..., None],
    what: str,
    right: str,
) -> None:
    verb, act = NEEDED[what]
    everything = user(
        "olga", "view_interrupt", "decide_interrupt", "assign_interrupt", "link_interrupt"
    )
    link = create_review_link(interrupt.pk, name="Dana")
    unchanged()
    before_the_lock(monkeypatch, lambda: revocable.add(right))
    with pytest.raises(NotAllowedError if right == "decide" else (InterruptNotFound, LinkNotFound)):
        act(interrupt, link, everything)
    unchanged(refused=right == "decide")
    revocable.clear()
    act(interrupt, link, everything)
    assert AuditEntry.objects.filter(verb=verb, actor=everything).exists()


class OfTheAssignee(ModelPermissionPolicy):
    """Policy that allows only the assignee to act on an interrupt."""

    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        return interrupt.assignee_id == user.pk

    may_assign = may_decide


@pytest.mark.promise("P18")
@pytest.mark.parametrize("what", NEEDED)
def test_assign_or_link_call_checks_permission_for_the_locked_interrupt(
    interrupt: Interrupt,
    user: Make,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    what: str,
) -> None:
    olga = user("olga", "view_interrupt", "link_interrupt")
    link = create_review_link(interrupt.pk, name="Dana")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.OfTheAssignee"}
    Interrupt.objects.update(assignee=olga)
    before_the_lock(monkeypatch, lambda: services.assign(interrupt.pk))
    with pytest.raises(NotAllowedError):
        NEEDED[what][1](interrupt, link, olga)
    Interrupt.objects.update(assignee=olga)
    NEEDED[what][1](interrupt, link, olga)


@pytest.mark.promise("P20")
@pytest.mark.parametrize("what", [*NEEDED, "use a link"])
def test_service_call_whose_audit_entry_cannot_be_stored_rolls_back_its_change(
    interrupt: Interrupt,
    user: Make,
    monkeypatch: pytest.MonkeyPatch,
    unchanged: Callable[..., None],
    what: str,
) -> None:
    boss = user("olga", "view_interrupt", "decide_interrupt", "assign_interrupt", "link_interrupt")
    link = create_review_link(interrupt.pk, name="Dana")
    services.assign(interrupt.pk, to=boss)
    services.claim(interrupt.pk, by=boss)
    services.snooze(interrupt.pk, until=interrupt.created_at + DAY, by=boss)

    def act() -> object:
        if what == "use a link":
            return decide_by_link(token_of(link), "approve")
        return NEEDED[what][1](interrupt, link, boss)

    unchanged()
    with monkeypatch.context() as away:
        away.setattr(entries, "make_entry", Mock(side_effect=OSError("the disk is full")))
        with pytest.raises(OSError, match="the disk is full"):
            act()
    unchanged()
    act()
