"""GraphEnvironment: starting, deciding, waiting and inspecting in tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from django.contrib.auth.models import Group
from django.test import TestCase

from hitl_django import START, Expiry, StateGraph, audit, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.review_options import review
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


class Leave(TypedDict, total=False):
    person: str
    days: int
    granted: Any
    told: str


def ask(leave: Leave) -> Leave:
    expires = Expiry(timedelta(days=3), "answer", False)
    payload = {"title": f"Give {leave['person']} {leave['days']} days off?"}
    return {"granted": interrupt(payload, expires=expires)}


def tell(leave: Leave) -> Leave:
    return {"told": f"{leave['person']}: {leave['granted']}"}


def build() -> StateGraph[Any]:
    graph = StateGraph(Leave).add_node("ask", ask).add_node("tell", tell)
    return graph.add_edge(START, "ask").add_edge("ask", "tell")


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    registry.register("leave")(build)
    broken = StateGraph(Leave).add_node("fail", lambda leave: 1 / 0).add_edge(START, "fail")
    registry.register("broken")(lambda: broken)
    yield
    registry.unregister("leave")
    registry.unregister("broken")


def test_graph_environment_starts_interrupts_decides_and_finishes_a_run(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("leave", {"person": "Ann", "days": 2})
    assert run.state == "interrupted"
    hitl.assert_asks(run, "Give Ann 2 days off?")
    decided = hitl.decide("Give Ann 2 days off?", "approve")
    assert decided.run_id == run.id
    result = hitl.assert_finished(run, granted=True, told="Ann: True")
    assert result["days"] == 2


def test_graph_environment_finds_interrupt_by_title_node_graph_or_run(
    hitl: GraphEnvironment,
) -> None:
    ann = hitl.start("leave", {"person": "Ann", "days": 2})
    bob = hitl.start("leave", {"person": "Bob", "days": 9})
    assert [each.run_id for each in hitl.interrupts()] == [ann.id, bob.id]
    assert hitl.interrupt(run=bob).title == "Give Bob 9 days off?"
    hitl.decide(run=bob, type="reject", reason="Too long.")
    hitl.decide(node="ask", graph="leave", type="approve")
    hitl.assert_finished(bob, granted=False)
    hitl.assert_finished(ann.id, granted=True)
    assert not hitl.interrupts().exists()


def test_graph_environment_error_for_missing_or_ambiguous_interrupt_lists_pending_interrupts(
    hitl: GraphEnvironment,
) -> None:
    with pytest.raises(
        AssertionError, match=r"matches title 'Ann\?'\. There are no pending interrupts"
    ):
        hitl.decide("Ann?", "approve")
    hitl.start("leave", {"person": "Ann", "days": 2})
    hitl.start("leave", {"person": "Bob", "days": 9})
    with pytest.raises(AssertionError) as told:
        hitl.decide(node="ask", type="approve")
    assert str(told.value).splitlines() == [
        "More than one pending interrupt matches node 'ask'. Pending interrupts:",
        "  'Give Ann 2 days off?' (leave, ask)",
        "  'Give Bob 9 days off?' (leave, ask)",
    ]
    assert hitl.interrupts().count() == 2


def test_graph_environment_error_for_missing_interrupt_lists_failed_and_parked_runs(
    hitl: GraphEnvironment,
) -> None:
    hitl.start("broken", {"person": "Ann"})
    parked = hitl.start("broken", {"person": "Bob"})
    Run.objects.filter(pk=parked.id).update(state="parked", error="The graph has changed.")
    with pytest.raises(AssertionError) as told:
        hitl.interrupt("Bob?")
    assert str(told.value).splitlines() == [
        "No pending interrupt matches title 'Bob?'. There are no pending interrupts.",
        "A run of broken is parked: The graph has changed.",
        "A run of broken is failed: ZeroDivisionError: division by zero",
    ]


def test_advance_time_past_expiry_finishes_run_with_its_default_response(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("leave", {"person": "Ann", "days": 2})
    hitl.advance_time(days=2, hours=23)
    hitl.assert_asks(run, "Give Ann 2 days off?")
    hitl.advance_time(hours=2)
    hitl.assert_finished(run, granted=False)
    assert Interrupt.objects.get(run=run.id).status == "expired"


def test_advance_time_expires_claim_and_leaves_valid_audit_log(
    hitl: GraphEnvironment, django_user_model: Any, settings: Any
) -> None:
    rita = django_user_model.objects.create_superuser("rita")
    payload = hitl.make_interrupt({"title": "Pay?"}, due=timedelta(hours=4))
    services.claim(payload.pk, by=rita)
    hitl.advance_time(hours=5)
    payload.refresh_from_db()
    assert payload.overdue
    assert services.claim(payload.pk, by=django_user_model.objects.create_superuser("olga"))
    hitl.decide(payload, "approve", by=rita)
    assert list(audit.find_faults()) == []


def test_make_interrupt_creates_interrupt_with_the_given_review_options(
    hitl: GraphEnvironment,
) -> None:
    Group.objects.create(name="payments")
    payload = hitl.make_interrupt({"sum": 3}, title="Pay 3?", group="payments", decisions=["edit"])
    assert (payload.title, payload.payload) == ("Pay 3?", {"sum": 3})
    assert payload.group_label == "payments"
    other = hitl.make_interrupt()
    hitl.decide(other, "respond", "yes")
    hitl.assert_finished(str(other.run_id), answer="yes")
    hitl.assert_asks(payload.run_id, "Pay 3?")


def test_assert_failed_and_assert_parked_compare_the_error_of_the_run(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("broken", {"person": "Ann"})
    hitl.assert_failed(run, "ZeroDivisionError")
    with pytest.raises(
        AssertionError, match="but its error doesn't match 'KeyError': ZeroDivision"
    ):
        hitl.assert_failed(run, "KeyError")
    with pytest.raises(AssertionError, match="to be parked, but it is failed: ZeroDivision"):
        hitl.assert_parked(run)
    Run.objects.filter(pk=run.id).update(state="parked", error="The graph has changed.")
    hitl.assert_parked(run, "has changed")


def test_failed_assertion_of_graph_environment_describes_the_actual_run_state(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("leave", {"person": "Ann", "days": 2})
    with pytest.raises(
        AssertionError, match="to be succeeded, but it has the interrupts 'Give Ann 2 days off"
    ):
        hitl.assert_finished(run)
    with pytest.raises(
        AssertionError, match=r"have the interrupts 'Pay\?', but it has 'Give Ann 2 days"
    ):
        hitl.assert_asks(run, "Pay?")
    hitl.decide(run=run, type="approve")
    with pytest.raises(AssertionError, match="to have pending interrupts, but it is succeeded"):
        hitl.assert_asks(run)
    with pytest.raises(AssertionError, match="ended with granted=True, expected False"):
        hitl.assert_finished(run, granted=False)
    with pytest.raises(AssertionError, match="ended without 'paid'"):
        hitl.assert_finished(run, paid=True)


def test_advance_executes_runs_started_by_project_code(hitl: GraphEnvironment) -> None:
    run = services.start("leave", {"person": "Ann", "days": 2})
    assert not hitl.interrupts().exists()
    assert hitl.advance() == 1
    services.decide(hitl.interrupt().pk, "approve")
    assert hitl.get_run(run).state == "queued"
    assert hitl.advance() == 1
    hitl.assert_finished(run)


class LeaveTests(TestCase):
    """Leave tests with Django's test classes."""

    def test_graph_environment_is_usable_as_context_manager(self) -> None:
        with GraphEnvironment() as hitl:
            run = hitl.start("leave", {"person": "Ann", "days": 2})
            hitl.decide("Give Ann 2 days off?", "approve")
            hitl.assert_finished(run, granted=True)


@pytest.mark.django_db(transaction=True)
def test_advance_time_finishes_expired_run_in_test_with_committed_transactions(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("leave", {"person": "Ann", "days": 2})
    hitl.advance_time(days=4)
    hitl.assert_finished(run, granted=False)


def test_review_options_of_node_are_stored_on_interrupt_in_graph_environment(
    hitl: GraphEnvironment,
) -> None:
    def check(state: Leave) -> Leave:
        return {"granted": review({"person": "Ann"}, title="Fine?", priority=2)}

    graph = StateGraph(Leave).add_node("check", check).add_edge(START, "check")
    registry.register("checked")(lambda: graph)
    try:
        hitl.start("checked", {})
        assert hitl.interrupt("Fine?", node="check").priority == 2
    finally:
        registry.unregister("checked")
