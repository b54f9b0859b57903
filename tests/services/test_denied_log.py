"""Denied actions in the audit log, and their maximum number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import F
from django.db.models.functions import Now

from hitl_django import audit, services
from hitl_django.audit import entries
from hitl_django.errors import NotAllowedError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread
from hitl_django.services import denied_log

from .conftest import asked

Attempt = Callable[[Interrupt, Any], object]

ATTEMPTS: dict[str, Attempt] = {
    "decide": lambda interrupt, who: services.decide(interrupt.pk, "approve", by=who, via="api"),
    "cancel": lambda interrupt, who: services.cancel(interrupt.run_id, by=who, via="api"),
    "retry": lambda interrupt, who: services.retry(interrupt.run_id, by=who, via="api"),
    "start": lambda interrupt, who: services.start(
        "approval", {"text": "x"}, thread_id=interrupt.thread.thread_id, by=who, via="api"
    ),
    "erase": lambda interrupt, who: services.erase_thread(
        interrupt.thread.thread_id, by=who, via="api"
    ),
    "fork": lambda interrupt, who: services.fork(
        interrupt.thread.thread_id, interrupt.checkpoint_id, by=who, via="api"
    ),
    "claim": lambda interrupt, who: services.claim(interrupt.pk, by=who, via="api"),
    "release": lambda interrupt, who: (
        Interrupt.objects.update(claimed_by_label="dan", claimed_until=Now() + denied_log.WITHIN),
        services.release(interrupt.pk, by=who, via="api"),
    ),
}


@pytest.fixture
def onlooker(user: Callable[..., User]) -> User:
    return user("olga", "view_interrupt", "view_run", "view_thread")


def refusals_of(thread: Thread) -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(thread=thread, verb="refuse").order_by("seq")
    return [(e.actor_label, e.via, e.subject, e.detail["type"]) for e in entries]


@pytest.mark.promise("P20")
@pytest.mark.parametrize("verb", ATTEMPTS)
def test_denied_service_call_writes_an_audit_entry_with_verb_refuse_and_changes_nothing_else(
    interrupt: Interrupt, onlooker: User, verb: str
) -> None:
    with pytest.raises(NotAllowedError):
        ATTEMPTS[verb](interrupt, onlooker)
    of_thread = {"start": "", "erase": ""}
    of_interrupt = dict.fromkeys(("decide", "claim", "release"), str(interrupt.pk))
    subject = {**of_interrupt, **of_thread}.get(verb, str(interrupt.run_id))
    assert refusals_of(interrupt.thread) == [("olga", "api", subject, verb)]
    assert audit.find_first_fault(Thread.objects.get()) is None
    assert not Decision.objects.exists()
    assert Run.objects.get().state == "interrupted"


@pytest.mark.promise("P20")
def test_denied_decision_writes_audit_entry_on_thread_of_its_interrupt_only(
    advance: Callable[[], int], onlooker: User
) -> None:
    first, interrupt, last = (asked("approval", {"text": "x"}, advance) for _ in range(3))
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=onlooker, via="api")
    assert [len(refusals_of(each.thread)) for each in (first, interrupt, last)] == [0, 1, 0]


@pytest.mark.promise("P20")
def test_denial_limit_counts_only_denials_of_the_same_user_and_thread(
    advance: Callable[[], int], user: Callable[..., User]
) -> None:
    interrupt, other = (asked("approval", {"text": "x"}, advance) for _ in range(2))
    onlooker = user("olga", "view_interrupt", "assign_interrupt")
    for who, where in ((user("oscar", "view_interrupt"), interrupt), (onlooker, other)):
        for _ in range(denied_log.MOST):
            with pytest.raises(NotAllowedError):
                services.decide(where.pk, "approve", by=who)
    for _ in range(denied_log.MOST):
        services.assign(interrupt.pk, to=None, by=onlooker, via="code")
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=onlooker)
    assert [entry[0] for entry in refusals_of(interrupt.thread)][-2:] == ["oscar", "olga"]


@pytest.mark.promise("P20")
def test_denials_beyond_the_limit_write_no_audit_entry_until_the_window_passes(
    interrupt: Interrupt,
    onlooker: User,
    user: Callable[..., User],
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = user("oscar", "view_interrupt")
    for _ in range(denied_log.MOST + 3):
        with pytest.raises(NotAllowedError):
            services.decide(interrupt.pk, "approve", by=onlooker)
    assert len(refusals_of(interrupt.thread)) == denied_log.MOST
    assert caplog.text.count("permission denied: user ") == denied_log.MOST + 3
    assert "olga" not in caplog.text

    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=other)
    assert refusals_of(interrupt.thread)[-1][0] == "oscar"

    AuditEntry.objects.update(at=F("at") - denied_log.WITHIN - timedelta(seconds=1))
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=onlooker)
    assert refusals_of(interrupt.thread)[-1][0] == "olga"


def test_denied_start_without_existing_thread_writes_no_audit_entry(onlooker: User) -> None:
    for who in (onlooker, AnonymousUser()):
        for thread_id in (None, "absent", "a\x00b"):
            with pytest.raises(NotAllowedError):
                services.start("approval", {"text": "x"}, by=who, thread_id=thread_id)
    assert not AuditEntry.objects.exists()


def test_denied_decision_raises_not_allowed_error_even_if_audit_entry_fails(
    interrupt: Interrupt, onlooker: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no more room")

    monkeypatch.setattr(entries, "make_entry", broken)
    with pytest.raises(NotAllowedError):
        services.decide(interrupt.pk, "approve", by=onlooker)


def test_denied_check_answer_writes_no_audit_entry(interrupt: Interrupt, onlooker: User) -> None:
    with pytest.raises(NotAllowedError):
        services.check_answer(interrupt.pk, "approve", by=onlooker)
    assert refusals_of(interrupt.thread) == []
