"""Second looks: which approvals are drawn, who judges them, and that no run waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from hitl_django import START, ReviewPolicy, StateGraph, audit, interrupt, register, services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Interrupt, Run, SecondLook
from hitl_django.services.reviews import second_look


@pytest.fixture
def drawn() -> Iterator[Callable[[float], str]]:
    """Registers a graph of whose approvals such a share is drawn."""

    def make(share: float) -> str:
        graph = StateGraph(dict).add_node("ask", lambda state: interrupt("Pay?") and None)
        review = ReviewPolicy(second_look=share)
        register("drawn", review=review)(lambda: graph.add_edge(START, "ask"))
        return "drawn"

    yield make
    registry.unregister("drawn")


@pytest.fixture
def ask(advance: Callable[[], int]) -> Callable[[str], Interrupt]:
    def make(graph: str) -> Interrupt:
        run = services.start(graph, {})
        advance()
        return Interrupt.objects.get(run=run.id)

    return make


@pytest.fixture
def ann(user: Callable[..., User]) -> User:
    return user("ann", "view_interrupt", "decide_interrupt")


@pytest.fixture
def ben(user: Callable[..., User]) -> User:
    return user("ben", "view_interrupt", "decide_interrupt")


@pytest.fixture
def look(drawn: Any, ask: Any, ann: User) -> SecondLook:
    """A second look at what Ann approved."""
    services.decide(ask(drawn(1.0)).pk, "approve", by=ann)
    return SecondLook.objects.get()


def test_a_share_of_the_questions_is_drawn_always_the_same_ones() -> None:
    keys = [uuid4() for _ in range(4000)]
    found = {key for key in keys if second_look.is_drawn(key, 0.05)}
    assert 120 < len(found) < 290
    assert found == {key for key in keys if second_look.is_drawn(str(key), 0.05)}
    assert found <= {key for key in keys if second_look.is_drawn(key, 0.1)}
    assert not any(second_look.is_drawn(key, 0) for key in keys)
    assert all(second_look.is_drawn(key, 1) for key in keys)


def test_nobody_without_the_key_can_know_which(settings: Any) -> None:
    keys = [uuid4() for _ in range(200)]
    found = [second_look.is_drawn(key, 0.5) for key in keys]
    settings.SECRET_KEY = "another"
    assert [second_look.is_drawn(key, 0.5) for key in keys] != found


@pytest.mark.parametrize("share", [-0.1, 1.1, True])
def test_a_share_is_one(share: Any) -> None:
    with pytest.raises(ValueError, match="share from 0 to 1"):
        ReviewPolicy(second_look=share)


def test_an_approval_is_drawn_with_the_decision_and_the_run_goes_on(
    look: SecondLook, advance: Callable[[], int]
) -> None:
    assert (look.verdict, look.decision.type) == ("", "approve")
    assert look.created_at == look.decision.created_at
    advance()
    assert Run.objects.get().state == Run.State.SUCCEEDED


@pytest.mark.parametrize(("kind", "share"), [("reject", 1.0), ("approve", 0.0)])
def test_nothing_else_is_drawn(kind: str, share: float, drawn: Any, ask: Any, ann: User) -> None:
    services.decide(ask(drawn(share)).pk, kind, by=ann)
    assert not SecondLook.objects.exists()


def test_what_code_approves_is_not_drawn(drawn: Any, ask: Any) -> None:
    services.decide(ask(drawn(1.0)).pk, "approve")
    assert not SecondLook.objects.exists()


def test_a_decision_that_is_sent_again_is_drawn_once(drawn: Any, ask: Any, ann: User) -> None:
    item = ask(drawn(1.0))
    for _ in range(2):
        services.decide(item.pk, "approve", by=ann, key="k")
    assert SecondLook.objects.count() == 1


@pytest.mark.parametrize("agrees", [True, False])
def test_a_verdict_is_recorded_and_changes_nothing_of_the_run(
    agrees: bool, look: SecondLook, ben: User, advance: Callable[[], int]
) -> None:
    advance()
    before = Run.objects.values().get(), Interrupt.objects.values().get()
    made = services.judge_second_look(look.pk, agrees, reason="It was too much.", by=ben)
    assert (made.verdict, made.by_label) == ("agree" if agrees else "disagree", "ben")
    assert (Run.objects.values().get(), Interrupt.objects.values().get()) == before
    entry = AuditEntry.objects.latest("seq")
    assert (entry.verb, entry.actor_label) == ("judge", "ben")
    assert entry.detail["verdict"] == made.verdict
    assert entry.detail["decision"] == str(look.decision_id)
    assert audit.find_first_fault(look.interrupt.thread) is None


def test_nobody_judges_what_they_approved_themselves(look: SecondLook, ann: User) -> None:
    with pytest.raises(NotAllowedError, match="yourself"):
        services.judge_second_look(look.pk, True, by=ann)
    look.refresh_from_db()
    assert look.verdict == ""


def test_who_may_not_decide_or_see_the_question_judges_nothing(
    look: SecondLook, user: Callable[..., User]
) -> None:
    with pytest.raises(NotAllowedError):
        services.judge_second_look(look.pk, True, by=user("reader", "view_interrupt"))
    with pytest.raises(InterruptNotFound):
        services.judge_second_look(look.pk, True, by=user("nobody"))


def test_who_disagrees_says_why(look: SecondLook, ben: User) -> None:
    with pytest.raises(InvalidInputError):
        services.judge_second_look(look.pk, False, reason=" ", by=ben)


def test_a_verdict_is_given_once(look: SecondLook, ben: User, user: Callable[..., User]) -> None:
    cleo = user("cleo", "view_interrupt", "decide_interrupt")
    services.judge_second_look(look.pk, True, by=ben)
    with pytest.raises(AlreadyDecidedError):
        services.judge_second_look(look.pk, False, reason="no", by=cleo)
    look.refresh_from_db()
    assert (look.verdict, look.by_label) == ("agree", "ben")


def test_a_verdict_is_given_once_whoever_has_read_it_open(
    look: SecondLook, ben: User, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecondLook.objects.update(verdict="agree")
    monkeypatch.setattr(second_look, "find_look", lambda *_: look)  # as it was a moment ago
    with pytest.raises(AlreadyDecidedError):
        services.judge_second_look(look.pk, False, reason="no", by=ben)
    assert SecondLook.objects.get().verdict == "agree"


def test_a_forgotten_thread_keeps_the_verdict_and_not_its_words(
    look: SecondLook, ben: User, advance: Callable[[], int]
) -> None:
    services.judge_second_look(look.pk, False, reason="Dana lied.", by=ben)
    advance()
    services.forget(look.interrupt.thread.thread_id)
    look.refresh_from_db()
    assert (look.verdict, look.reason) == ("disagree", "")
    assert "Dana" not in str(list(AuditEntry.objects.values_list("detail", flat=True)))
    assert audit.find_first_fault(look.interrupt.thread) is None
