"""Spot checks: sampling, permissions and independence of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks

from hitl_django import START, StateGraph, audit, interrupt, register, services
from hitl_django.contrib.insights import spot_check, spot_checks
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.spot_checks import record_spot_check
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Interrupt, Run


@pytest.fixture
def sampled() -> Iterator[Callable[[float], str]]:
    """Register a graph with spot checks."""

    def make(rate: float) -> str:
        graph = StateGraph(dict).add_node("ask", lambda state: interrupt("Pay?") and None)
        register("sampled")(lambda: graph.add_edge(START, "ask"))
        spot_check("sampled", rate=rate)
        return "sampled"

    yield make
    registry.unregister("sampled")


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
def look(sampled: Any, ask: Any, ann: User) -> SpotCheck:
    services.decide(ask(sampled(1.0)).pk, "approve", by=ann)
    return SpotCheck.objects.get()


def test_spot_check_sampling_is_deterministic_and_matches_the_rate() -> None:
    keys = [uuid4() for _ in range(4000)]
    found = {key for key in keys if spot_checks.is_sampled(key, 0.05)}
    assert 120 < len(found) < 290
    assert found == {key for key in keys if spot_checks.is_sampled(str(key), 0.05)}
    assert found <= {key for key in keys if spot_checks.is_sampled(key, 0.1)}
    assert not any(spot_checks.is_sampled(key, 0) for key in keys)
    assert all(spot_checks.is_sampled(key, 1) for key in keys)


def test_spot_check_sampling_changes_with_secret_key(settings: Any) -> None:
    keys = [uuid4() for _ in range(200)]
    found = [spot_checks.is_sampled(key, 0.5) for key in keys]
    settings.SECRET_KEY = "another"
    assert [spot_checks.is_sampled(key, 0.5) for key in keys] != found


@pytest.mark.parametrize("rate", [-0.1, 1.1, True, "0.5"])
def test_spot_check_rate_outside_zero_to_one_raises_value_error(rate: Any) -> None:
    with pytest.raises(ValueError, match="number from 0 to 1"):
        spot_check("sampled", rate=rate)


def test_spot_check_rate_for_unregistered_graph_fails_system_check_with_warning() -> None:
    spot_check("unknown", rate=0.5)
    found = [each.id for each in run_checks(tags=["hitl_django"]) if "'unknown'" in each.msg]
    assert found == ["hitl_insights.W001"]


def test_run_with_sampled_approval_succeeds_before_the_spot_check_result(
    look: SpotCheck, advance: Callable[[], int]
) -> None:
    assert (look.result, look.decision.type) == ("", "approve")
    assert look.created_at == look.decision.created_at
    advance()
    assert Run.objects.get().state == Run.State.SUCCEEDED


@pytest.mark.parametrize(("kind", "rate"), [("reject", 1.0), ("approve", 0.0)])
def test_rejection_at_any_rate_and_approval_at_rate_zero_create_no_spot_check(
    kind: str, rate: float, sampled: Any, ask: Any, ann: User
) -> None:
    services.decide(ask(sampled(rate)).pk, kind, by=ann)
    assert not SpotCheck.objects.exists()


def test_approval_without_user_creates_no_spot_check(sampled: Any, ask: Any) -> None:
    services.decide(ask(sampled(1.0)).pk, "approve")
    assert not SpotCheck.objects.exists()


def test_decision_repeated_with_its_idempotency_key_creates_one_spot_check(
    sampled: Any, ask: Any, ann: User
) -> None:
    item = ask(sampled(1.0))
    for _ in range(2):
        services.decide(item.pk, "approve", by=ann, key="k")
    assert SpotCheck.objects.count() == 1


@pytest.mark.parametrize("agrees", [True, False])
def test_spot_check_result_changes_no_run_or_interrupt_and_is_logged(
    agrees: bool, look: SpotCheck, ben: User, advance: Callable[[], int]
) -> None:
    advance()
    before = Run.objects.values().get(), Interrupt.objects.values().get()
    made = record_spot_check(look.pk, agrees, reason="It was too much.", by=ben)
    assert (made.result, made.by_label) == ("agree" if agrees else "disagree", "ben")
    assert (Run.objects.values().get(), Interrupt.objects.values().get()) == before
    entry = AuditEntry.objects.latest("seq")
    assert (entry.verb, entry.actor_label) == ("spot_check", "ben")
    assert entry.detail["result"] == made.result
    assert entry.detail["decision"] == str(look.decision_id)
    assert audit.find_first_fault(look.interrupt.thread) is None


def test_spot_check_by_the_approver_raises_not_allowed_error(look: SpotCheck, ann: User) -> None:
    with pytest.raises(NotAllowedError, match="yourself"):
        record_spot_check(look.pk, True, by=ann)
    look.refresh_from_db()
    assert look.result == ""


def test_spot_check_without_decide_permission_raises_not_allowed_error(
    look: SpotCheck, user: Callable[..., User]
) -> None:
    with pytest.raises(NotAllowedError):
        record_spot_check(look.pk, True, by=user("reader", "view_interrupt"))
    with pytest.raises(InterruptNotFound):
        record_spot_check(look.pk, True, by=user("nobody"))


def test_spot_check_disagreement_without_reason_raises_invalid_input_error(
    look: SpotCheck, ben: User
) -> None:
    with pytest.raises(InvalidInputError):
        record_spot_check(look.pk, False, reason=" ", by=ben)


def test_second_spot_check_result_raises_already_decided_error(
    look: SpotCheck, ben: User, user: Callable[..., User]
) -> None:
    cleo = user("cleo", "view_interrupt", "decide_interrupt")
    record_spot_check(look.pk, True, by=ben)
    with pytest.raises(AlreadyDecidedError):
        record_spot_check(look.pk, False, reason="no", by=cleo)
    look.refresh_from_db()
    assert (look.result, look.by_label) == ("agree", "ben")


def test_record_spot_check_raises_already_decided_error_if_result_was_saved_concurrently(
    look: SpotCheck, ben: User, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    SpotCheck.objects.update(result="agree")
    # The state before the change.
    monkeypatch.setattr(spot_checks, "find_spot_check", lambda *_: look)
    with pytest.raises(AlreadyDecidedError):
        record_spot_check(look.pk, False, reason="no", by=ben)
    assert SpotCheck.objects.get().result == "agree"


def test_erase_of_thread_clears_spot_check_reason_and_preserves_result(
    look: SpotCheck, ben: User, advance: Callable[[], int]
) -> None:
    record_spot_check(look.pk, False, reason="Dana lied.", by=ben)
    advance()
    services.erase_thread(look.interrupt.thread.thread_id)
    look.refresh_from_db()
    assert (look.result, look.reason) == ("disagree", "")
    assert "Dana" not in str(list(AuditEntry.objects.values_list("detail", flat=True)))
    assert audit.find_first_fault(look.interrupt.thread) is None
