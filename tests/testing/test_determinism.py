"""assert_deterministic: equal results of a graph with any number of crashes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from django.contrib.auth.models import Group

from hitl_django import START, StateGraph, interrupt, once, transact
from hitl_django.graph_registry import registry
from hitl_django.models import Run, Thread
from hitl_django.testing import GraphEnvironment, NondeterminismError, assert_deterministic

pytestmark = pytest.mark.django_db


class Order(TypedDict, total=False):
    total: int
    answer: Any
    log: Annotated[list[str], operator.add]


@pytest.fixture
def order() -> Iterator[Callable[..., None]]:
    """Register the graph "purchase" with a node that charges before and after an interrupt."""

    def register(charge: Callable[[Order], Order]) -> None:
        def ask(state: Order) -> Order:
            return {"answer": interrupt("Ship it?"), "log": ["asked"]}

        graph = StateGraph(Order).add_node("charge", charge).add_node("ask", ask)
        graph.add_node("ship", lambda state: {"log": ["shipped"]})
        graph.add_edge(START, "charge").add_edge("charge", "ask").add_edge("ask", "ship")
        registry.register("purchase")(lambda: graph)

    yield register
    registry.unregister("purchase")


def buy(hitl: GraphEnvironment) -> Any:
    run = hitl.start("purchase", {"total": 1})
    hitl.decide("Ship it?", "approve")
    hitl.assert_finished(run)
    return Group.objects.count()


def test_assert_deterministic_of_deterministic_graph_passes_and_leaves_no_rows(order: Any) -> None:
    order(lambda state: {"total": state["total"] + 1, "log": ["charged"]})
    # Three steps. The step with the interrupt runs twice, and each effect has a point before and
    # after.
    assert assert_deterministic(buy) >= 8
    assert not Run.objects.exists()
    assert not Thread.objects.exists()


def test_assert_deterministic_names_nondeterministic_write_with_its_step(order: Any) -> None:
    counter = itertools.count(2)
    order(lambda state: {"total": next(counter)})
    with pytest.raises(NondeterminismError) as told:
        assert_deterministic(buy)
    assert str(told.value) == (
        "Nondeterministic on the second run: threads[0].steps[2].values.total was 3, not 2 as "
        "on the first run."
    )
    assert assert_deterministic(buy, ignore=["total"]) >= 8


def test_assert_deterministic_reports_row_written_twice_after_a_crash(order: Any) -> None:
    names = itertools.count()

    def charge(state: Order) -> Order:
        Group.objects.create(name=f"payment {next(names)}")
        return {"log": ["charged"]}

    order(charge)
    with pytest.raises(
        NondeterminismError, match=r"killed before commit 1 of \d: returned was 2, not 1"
    ):
        assert_deterministic(buy)


@pytest.mark.parametrize("guard", [once, transact])
def test_assert_deterministic_passes_for_row_written_in_transact_and_fails_for_row_written_in_once(
    order: Any, guard: Any
) -> None:
    names = itertools.count()

    def pay() -> None:
        Group.objects.create(name=f"payment {next(names)}")

    def charge(state: Order) -> Order:
        guard("pay", pay)
        return {"log": ["charged"]}

    order(charge)
    if guard is transact:
        assert assert_deterministic(buy) >= 10
    else:
        # once() stores a result after the call. A crash before that repeats the call.
        with pytest.raises(NondeterminismError, match="before commit 1 "):
            assert_deterministic(buy)


def test_assert_deterministic_reports_interrupt_payload_that_differs_on_second_run(
    order: Any,
) -> None:
    counter = itertools.count()

    def charge(state: Order) -> Order:
        interrupt({"title": "Charge?", "number": next(counter)})
        return {}

    order(charge)

    def story(hitl: GraphEnvironment) -> None:
        hitl.start("purchase", {"total": 1})

    with pytest.raises(NondeterminismError, match=r"interrupts\[0\]\.payload\.number was 1, not 0"):
        assert_deterministic(story)
    assert assert_deterministic(story, ignore=["number"]) == 4


@pytest.mark.django_db(transaction=True)
def test_assert_deterministic_passes_in_test_with_committed_transactions(order: Any) -> None:
    order(lambda state: {"total": 2})
    assert assert_deterministic(buy) >= 8
    assert not Thread.objects.exists()
