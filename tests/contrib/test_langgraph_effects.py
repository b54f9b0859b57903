"""once(), transact() and review() in nodes and tools of registered LangGraph graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, interrupt
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from hitl_django import once, review, transact
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db(transaction=True)

#: The calls of ``work``.
calls: list[str] = []


class State(TypedDict, total=False):
    said: Annotated[list[Any], operator.add]


class Amount(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def check_cents(cls, cents: int) -> int:
        if cents > 100:
            raise ValueError("too much")
        return cents


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    calls.clear()
    with registry.hide_graphs():
        yield


def work(name: str) -> str:
    calls.append(name)
    return name


def book(name: str) -> str:
    return Group.objects.create(name=name).name


def build(node: Any, **options: Any) -> Any:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node").compile()


def test_once_and_transact_in_retried_node_keep_results_of_failed_attempt(
    hitl: GraphEnvironment,
) -> None:
    def stumble(state: State) -> State:
        answer = review({"title": "Go?"})
        said = [once("work", work, "one"), transact("book", book, "g")]
        calls.append("attempt")
        if calls.count("attempt") == 1:
            raise ConnectionError
        return {"said": [*said, answer]}

    again = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)
    register_langgraph("stumbles")(lambda: build(stumble, retry_policy=again))
    run = hitl.start("stumbles", {"said": []})
    hitl.decide("Go?", "approve")
    assert hitl.assert_finished(run) == {"said": ["one", "g", True]}
    assert calls == ["one", "attempt", "attempt"]


def test_review_between_interrupts_of_langgraph_node_is_pending_again_after_invalid_response(
    hitl: GraphEnvironment,
) -> None:
    def ask(state: State) -> State:
        first = interrupt({"title": "First?"})
        amount = review({"title": "Amount?"}, response_schema=Amount)
        last = interrupt({"title": "Last?"})
        return {"said": [first, amount.cents, last]}

    register_langgraph("asks")(lambda: build(ask))
    run = hitl.start("asks", {"said": []})
    hitl.decide("First?", "approve")
    hitl.decide("Amount?", "respond", {"cents": 101})
    assert "too much" in hitl.interrupt(run=run).refused().refusal
    hitl.decide("Amount?", "respond", {"cents": 100})
    hitl.decide("Last?", "reject")
    assert hitl.assert_finished(run) == {"said": [True, 100, False]}


def test_interrupt_of_langgraph_node_stores_the_formats_of_decimals_and_dates_of_its_payload(
    hitl: GraphEnvironment,
) -> None:
    def ask(state: State) -> State:
        payload = {"amount": Decimal("1.50"), "days": [date(2026, 1, 31)]}
        return {"said": [interrupt({"title": "A?", **payload}), review({"title": "B?", **payload})]}

    register_langgraph("asks")(lambda: build(ask))
    run = hitl.start("asks", {"said": []})
    hitl.decide("A?", "approve")
    hitl.decide("B?", "approve")
    hitl.assert_finished(run)
    for asked in Interrupt.objects.all():
        assert asked.payload_formats == {"/amount": "decimal", "/days/0": "date"}


def test_review_with_changed_payload_after_decision_parks_the_run(hitl: GraphEnvironment) -> None:
    def ask(state: State) -> State:
        calls.append("asked")
        return {"said": [review({"title": f"Question {len(calls)}?"})]}

    register_langgraph("changes")(lambda: build(ask))
    run = hitl.start("changes", {"said": []})
    hitl.decide("Question 1?", "approve")
    hitl.assert_parked(run, "asked something different")


@pytest.mark.parametrize("is_node", [True, False])
def test_once_and_transact_results_of_subgraph_or_called_graph_are_stored_with_the_inner_task(
    hitl: GraphEnvironment, is_node: bool
) -> None:
    def ask(state: State) -> State:
        number = once("number", lambda: len(calls))
        calls.append("asked")
        return {"said": [number, review({"title": f"Question {len(state['said'])}?"})]}

    below = StateGraph(State).add_node("one", ask).add_node("two", ask)
    inner: Any = below.add_edge(START, "one").add_edge("one", "two").compile()
    register_langgraph("nested")(
        lambda: build(inner if is_node else lambda state: inner.invoke({"said": []}))
    )
    run = hitl.start("nested", {"said": []})
    hitl.decide("Question 0?", "approve")
    hitl.decide("Question 2?", "reject")
    assert hitl.assert_finished(run)["said"][-4:] == [0, True, 2, False]


def test_once_and_transact_results_of_functional_task_are_stored_with_the_task(
    hitl: GraphEnvironment,
) -> None:
    @task
    def pay(name: str) -> list[Any]:
        return [once("work", work, name), review({"title": f"Pay {name}?"})]

    @entrypoint()
    def sell(given: Any) -> list[Any]:
        return [one.result() for one in [pay("a"), pay("b")]]

    register_langgraph("sells")(sell)
    run = hitl.start("sells", {})
    hitl.decide("Pay a?", "approve")
    hitl.decide("Pay b?", "reject")
    assert hitl.assert_finished(run) == [["a", True], ["b", False]]
    assert sorted(calls) == ["a", "b"]


def test_call_of_once_in_langgraph_graph_without_stored_state_fails_with_reason(
    hitl: GraphEnvironment,
) -> None:
    inner: Any = StateGraph(State).add_node("n", lambda state: {"said": [once("w", work, "x")]})
    unsaved = inner.add_edge(START, "n").compile(checkpointer=False)
    # With "sync", LangGraph doesn't run a graph that stores nothing.
    register_langgraph("unsaved", durability="async")(
        lambda: build(lambda state: unsaved.invoke(state))
    )
    hitl.assert_failed(hitl.start("unsaved", {"said": []}), "checkpointer=False")
    assert calls == []


def test_call_of_once_in_langgraph_graph_outside_of_worker_fails_with_reason() -> None:
    graph = build(lambda state: {"said": [once("work", work, "one")]})
    with pytest.raises(RuntimeError, match="if a worker runs the graph"):
        graph.invoke({"said": []})
