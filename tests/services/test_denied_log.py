"""What a permission refused is in the record, and can't fill it."""

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
    "decide": lambda question, who: services.decide(question.pk, "approve", by=who, via="api"),
    "cancel": lambda question, who: services.cancel(question.run_id, by=who, via="api"),
    "retry": lambda question, who: services.retry(question.run_id, by=who, via="api"),
    "start": lambda question, who: services.start(
        "approval", {"text": "x"}, thread_id=question.thread.thread_id, by=who, via="api"
    ),
    "forget": lambda question, who: services.forget(question.thread.thread_id, by=who, via="api"),
    "fork": lambda question, who: services.fork(
        question.thread.thread_id, question.checkpoint_id, by=who, via="api"
    ),
    "claim": lambda question, who: services.claim(question.pk, by=who, via="api"),
    "release": lambda question, who: (
        Interrupt.objects.update(claimed_label="dan", claimed_until=Now() + denied_log.WITHIN),
        services.release(question.pk, by=who, via="api"),
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
def test_a_refused_attempt_leaves_an_entry_and_nothing_else(
    question: Interrupt, onlooker: User, verb: str
) -> None:
    with pytest.raises(NotAllowedError):
        ATTEMPTS[verb](question, onlooker)
    of_thread = {"start": "", "forget": ""}
    of_question = dict.fromkeys(("decide", "claim", "release"), str(question.pk))
    subject = {**of_question, **of_thread}.get(verb, str(question.run_id))
    assert refusals_of(question.thread) == [("olga", "api", subject, verb)]
    assert audit.find_first_fault(Thread.objects.get()) is None
    assert not Decision.objects.exists()
    assert Run.objects.get().state == "interrupted"


@pytest.mark.promise("P20")
def test_a_refusal_is_in_the_record_of_its_own_thread(
    advance: Callable[[], int], onlooker: User
) -> None:
    first, question, last = (asked("approval", {"text": "x"}, advance) for _ in range(3))
    with pytest.raises(NotAllowedError):
        services.decide(question.pk, "approve", by=onlooker, via="api")
    assert [len(refusals_of(each.thread)) for each in (first, question, last)] == [0, 1, 0]


@pytest.mark.promise("P20")
def test_what_else_is_in_a_record_or_in_others_leaves_room_for_a_refusal(
    advance: Callable[[], int], user: Callable[..., User]
) -> None:
    question, other = (asked("approval", {"text": "x"}, advance) for _ in range(2))
    onlooker = user("olga", "view_interrupt", "assign_interrupt")
    for who, where in ((user("oscar", "view_interrupt"), question), (onlooker, other)):
        for _ in range(denied_log.MOST):
            with pytest.raises(NotAllowedError):
                services.decide(where.pk, "approve", by=who)
    for _ in range(denied_log.MOST):
        services.assign(question.pk, to=None, by=onlooker, via="code")
    with pytest.raises(NotAllowedError):
        services.decide(question.pk, "approve", by=onlooker)
    assert [entry[0] for entry in refusals_of(question.thread)][-2:] == ["oscar", "olga"]


@pytest.mark.promise("P20")
def test_who_is_refused_too_often_is_only_logged(
    question: Interrupt,
    onlooker: User,
    user: Callable[..., User],
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = user("oscar", "view_interrupt")
    for _ in range(denied_log.MOST + 3):
        with pytest.raises(NotAllowedError):
            services.decide(question.pk, "approve", by=onlooker)
    assert len(refusals_of(question.thread)) == denied_log.MOST
    assert caplog.text.count("may not decide") == denied_log.MOST + 3
    assert "olga" not in caplog.text

    with pytest.raises(NotAllowedError):
        services.decide(question.pk, "approve", by=other)
    assert refusals_of(question.thread)[-1][0] == "oscar"

    AuditEntry.objects.update(at=F("at") - denied_log.WITHIN - timedelta(seconds=1))
    with pytest.raises(NotAllowedError):
        services.decide(question.pk, "approve", by=onlooker)
    assert refusals_of(question.thread)[-1][0] == "olga"


def test_nobody_and_a_run_that_never_was_have_no_record(onlooker: User) -> None:
    for who in (onlooker, AnonymousUser()):
        for thread_id in (None, "absent", "a\x00b"):
            with pytest.raises(NotAllowedError):
                services.start("approval", {"text": "x"}, by=who, thread_id=thread_id)
    assert not AuditEntry.objects.exists()


def test_a_refusal_that_cannot_be_recorded_is_still_the_answer(
    question: Interrupt, onlooker: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no more room")

    monkeypatch.setattr(entries, "make_entry", broken)
    with pytest.raises(NotAllowedError):
        services.decide(question.pk, "approve", by=onlooker)


def test_a_dry_run_is_no_attempt(question: Interrupt, onlooker: User) -> None:
    with pytest.raises(NotAllowedError):
        services.check_answer(question.pk, "approve", by=onlooker)
    assert refusals_of(question.thread) == []
