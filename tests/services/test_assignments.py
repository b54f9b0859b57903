"""Assignment, snoozing and comments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import override_settings
from django.utils.timezone import make_naive, now

from hitl_django import audit, services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, ClaimedError, InterruptNotFound, NotAllowedError
from hitl_django.models import AuditEntry, Comment, Interrupt, Thread
from hitl_django.permissions import ModelPermissionPolicy

REVIEW = ("view_interrupt", "decide_interrupt")
HOUR = timedelta(hours=1)


@pytest.fixture
def boss(user: Callable[..., User]) -> User:
    return user("bo", *REVIEW, "assign_interrupt")


@pytest.fixture
def reader(user: Callable[..., User]) -> User:
    return user("vik", "view_interrupt")


def again(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=interrupt.pk)


def recorded(verb: str) -> AuditEntry:
    assert audit.find_first_fault(Thread.objects.get()) is None
    return AuditEntry.objects.get(verb=verb)


def test_assign_stores_user_and_group_on_interrupt_and_writes_audit_entry(
    interrupt: Interrupt, boss: User, reviewer: User
) -> None:
    crew = Group.objects.create(name="Crew")
    services.assign(interrupt.pk, to=reviewer, group=crew, by=boss, via="admin")
    row = again(interrupt)
    assert (row.assignee, row.assignee_label) == (reviewer, "rita")
    assert (row.group, row.group_label) == (crew, "Crew")
    entry = recorded("assign")
    assert (entry.actor, entry.via, entry.subject) == (boss, "admin", str(interrupt.pk))
    assert (entry.detail["to"], entry.detail["group"]) == ("rita", "Crew")


def test_assign_without_user_and_group_clears_assignment_of_interrupt(
    interrupt: Interrupt, boss: User, reviewer: User
) -> None:
    services.assign(interrupt.pk, to=reviewer, group=Group.objects.create(name="Crew"), by=boss)
    services.assign(interrupt.pk, by=boss)
    row = again(interrupt)
    assert (row.assignee, row.assignee_label, row.group, row.group_label) == (None, "", None, "")


def test_assignment_labels_remain_after_assignee_and_group_are_deleted(
    interrupt: Interrupt, boss: User, reviewer: User
) -> None:
    crew = Group.objects.create(name="Crew")
    services.assign(interrupt.pk, to=reviewer, group=crew, by=boss)
    reviewer.delete()
    crew.delete()
    row = again(interrupt)
    assert (row.assignee, row.assignee_label, row.group, row.group_label) == (
        None, "rita", None, "Crew",
    )  # fmt: skip


@pytest.mark.promise("P18")
def test_assign_without_permission_or_to_user_unable_to_decide_raises_error_and_assigns_no_user(
    interrupt: Interrupt, boss: User, reviewer: User, reader: User, user: Callable[..., User]
) -> None:
    with pytest.raises(NotAllowedError):
        services.assign(interrupt.pk, to=reviewer, by=reviewer)
    with pytest.raises(InterruptNotFound):
        services.assign(interrupt.pk, to=boss, by=user("blind", "assign_interrupt"))
    for incapable in (reader, user("strange", "decide_interrupt")):
        with pytest.raises(InvalidInputError, match="don't have permission to decide") as refused:
            services.assign(interrupt.pk, to=incapable, by=boss)
        assert refused.value.faults[0][0] == "to"
    assert again(interrupt).assignee is None
    assert recorded("refuse").actor == reviewer


def test_snoozed_interrupt_is_claimed_by_claim_next_only_after_the_snooze_is_ended(
    interrupt: Interrupt, reviewer: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    until = now() + HOUR
    services.snooze(interrupt.pk, until=until, by=reviewer, via="admin")
    row = again(interrupt)
    assert (row.snoozed_until, row.claimed_by) == (until, None)
    assert services.claim_next(by=reviewer) is None
    entry = recorded("snooze")
    assert (entry.actor, entry.detail["until"]) == (reviewer, until.isoformat())
    services.snooze(interrupt.pk, until=None, by=reviewer)
    assert services.claim_next(by=reviewer) == interrupt.pk


def test_snooze_with_duration_instead_of_time_raises_type_error(interrupt: Interrupt) -> None:
    with pytest.raises(TypeError, match="Expected a datetime, not"):
        services.snooze(interrupt.pk, until=timedelta(hours=1))  # type: ignore[arg-type]


@pytest.mark.parametrize("until", [datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 1, 1)])
def test_snooze_until_past_time_raises_invalid_input_error(
    until: datetime, interrupt: Interrupt, reviewer: User
) -> None:
    with pytest.raises(InvalidInputError, match="must be in the future"):
        services.snooze(interrupt.pk, until=until, by=reviewer)
    assert again(interrupt).snoozed_until is None


@pytest.mark.promise("P18")
def test_snooze_of_interrupt_claimed_by_another_user_raises_claimed_error(
    interrupt: Interrupt, reviewer: User, boss: User, reader: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    # The response names the user of the claim at any time.
    for until in (now() + HOUR, now() - HOUR):
        with pytest.raises(ClaimedError, match="rita"):
            services.snooze(interrupt.pk, until=until, by=boss)
    with pytest.raises(NotAllowedError):
        services.snooze(interrupt.pk, until=now() + HOUR, by=reader)
    assert again(interrupt).snoozed_until is None
    assert again(interrupt).claimed_by == reviewer


def test_assign_and_snooze_of_decided_interrupt_raise_already_decided_error(
    interrupt: Interrupt,
) -> None:
    services.decide(interrupt.pk, "approve")
    with pytest.raises(AlreadyDecidedError):
        services.assign(interrupt.pk)
    with pytest.raises(AlreadyDecidedError):
        services.snooze(interrupt.pk, until=None)


@pytest.mark.promise("P18")
def test_assign_and_snooze_of_decided_interrupt_without_permission_raise_not_allowed_error(
    interrupt: Interrupt, reviewer: User, reader: User
) -> None:
    services.decide(interrupt.pk, "approve")
    with pytest.raises(NotAllowedError):
        services.assign(interrupt.pk, by=reviewer)
    with pytest.raises(NotAllowedError):
        services.snooze(interrupt.pk, until=None, by=reader)
    assert {entry.actor for entry in AuditEntry.objects.filter(verb="refuse")} == {reviewer, reader}


def test_snooze_of_superseded_interrupt_with_claim_raises_already_decided_error(
    interrupt: Interrupt, reviewer: User, boss: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    Interrupt.objects.update(status="superseded")
    with pytest.raises(AlreadyDecidedError):
        services.snooze(interrupt.pk, until=now() + HOUR, by=boss)


def test_snooze_until_naive_time_uses_the_current_time_zone(
    interrupt: Interrupt, reviewer: User
) -> None:
    until = now() + HOUR
    services.snooze(interrupt.pk, until=make_naive(until), by=reviewer)
    assert again(interrupt).snoozed_until == until


def test_snooze_without_user_ends_claim_and_ending_a_snooze_without_user_preserves_claim(
    interrupt: Interrupt, reviewer: User, boss: User
) -> None:
    services.claim(interrupt.pk, by=reviewer)
    services.snooze(interrupt.pk, until=None)
    assert again(interrupt).claimed_by == reviewer
    services.snooze(interrupt.pk, until=now() + HOUR)
    assert again(interrupt).claimed_by is None
    services.claim(interrupt.pk, by=reviewer)
    Interrupt.objects.update(claimed_until=now() - HOUR)
    services.snooze(interrupt.pk, until=now() + HOUR, by=boss)  # the claim has expired
    assert again(interrupt).claimed_by is None


def test_comment_is_stored_without_null_characters_and_omitted_from_audit_log(
    interrupt: Interrupt, reviewer: User
) -> None:
    info = services.comment(interrupt.pk, "  Why \x00 so <b>much</b>?\n", by=reviewer, via="api")
    row = Comment.objects.get()
    assert (row.pk, row.text) == (info.id, "Why \\u0000 so <b>much</b>?")
    assert (row.by, row.by_label, row.via) == (reviewer, "rita", "api")
    assert (info.text, info.by_label, info.created_at) == (row.text, "rita", row.created_at)
    assert "much" not in str(recorded("comment").detail)


def test_comment_on_decided_interrupt_is_stored(interrupt: Interrupt, reviewer: User) -> None:
    services.decide(interrupt.pk, "approve")
    services.comment(interrupt.pk, "That was quick.", by=reviewer)
    assert [comment.text for comment in interrupt.comments.all()] == ["That was quick."]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("text", ["", " \n", "x" * 21])
@override_settings(HITL={"COMMENT_MAX_LENGTH": 20})
def test_comment_that_is_empty_or_too_long_raises_invalid_input_error(
    text: str, interrupt: Interrupt
) -> None:
    with pytest.raises(InvalidInputError):
        services.comment(interrupt.pk, text)
    assert not Comment.objects.exists()
    assert services.comment(interrupt.pk, f" {'x' * 20}\n").text == "x" * 20


@pytest.mark.promise("P18")
def test_comment_without_permission_raises_not_found_or_not_allowed_error(
    interrupt: Interrupt, reader: User, user: Callable[..., User]
) -> None:
    with pytest.raises(NotAllowedError):
        services.comment(interrupt.pk, "Hm.", by=reader)
    with pytest.raises(InterruptNotFound):
        services.comment(interrupt.pk, "Hm.", by=user("blind", "decide_interrupt"))
    services.comment(interrupt.pk, "Hm.", by=user("critic", "view_interrupt", "add_comment"))
    assert Comment.objects.get().by_label == "critic"


def test_erase_thread_empties_comment_text_and_preserves_comment_row(
    interrupt: Interrupt, advance: Callable[[], int]
) -> None:
    services.comment(interrupt.pk, "secret")
    services.decide(interrupt.pk, "approve")
    advance()
    services.erase_thread(interrupt.thread.thread_id)
    assert Comment.objects.get().text == ""
    assert recorded("comment").subject == str(interrupt.pk)


def test_snooze_of_interrupt_claimed_during_permission_check_raises_claimed_error(
    interrupt: Interrupt, boss: User, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim doesn't lock the thread, so it can be created between the check and the update."""

    def may_decide(policy: Any, user: User, row: Interrupt) -> bool:
        monkeypatch.undo()
        services.claim(interrupt.pk, by=reviewer)
        return True

    monkeypatch.setattr(ModelPermissionPolicy, "may_decide", may_decide)
    with pytest.raises(ClaimedError, match=r"^The interrupt is claimed by rita"):
        services.snooze(interrupt.pk, until=now() + HOUR, by=boss)
    assert again(interrupt).snoozed_until is None
    assert not AuditEntry.objects.filter(verb="snooze").exists()
