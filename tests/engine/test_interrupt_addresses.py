"""Interrupts and responses: allowed values, and their validation."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from hitl_django import StateGraph, interrupt
from hitl_django.engine.constants import KEYED, RESUME
from hitl_django.engine.errors import InvalidAnswerError, PayloadLimitError, UnserializableError
from hitl_django.engine.payload import MAX_BITS
from hitl_django.engine.types import RetryPolicy

from .graphs import (
    CONFIG,
    State,
    answer,
    asks,
    line,
    log_of,
    open_interrupts,
    paused,
    saved,
    says,
    side_by_side,
)

# What may be asked.


@pytest.mark.parametrize(
    "payload", [None, True, 0, 1.5, "text", [], {}, {"a": [1, {"b": None}]}, "é\u2028😀"]
)
def test_invoke_returns_interrupt_with_value_equal_to_its_json_payload(payload: Any) -> None:
    stopped = saved(line(a=asks(payload))).invoke({"x": 1}, CONFIG)
    assert [asked.value for asked in stopped["__interrupt__"]] == [payload]


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (object(), "$"),
        ({"order": [1, {"by": {1, 2}}]}, "$.order[1].by"),
        ([b"bytes"], "$[0]"),
        ({1: "x"}, "$"),
        ({"a": {2: 1}}, "$.a"),
        (float("nan"), "$"),
        ([float("inf")], "$[0]"),
        ("NUL \x00", "$"),
        ({"a": "\ud800"}, "$.a"),
        ({"k\x00": 1}, "$.k\x00"),
        (pydantic.BaseModel, "$"),
    ],
)
def test_interrupt_with_non_json_payload_raises_unserializable_error_with_path_of_value(
    payload: Any, path: str
) -> None:
    graph = saved(line(a=asks(payload)))
    with pytest.raises(UnserializableError) as raised:
        graph.invoke({"x": 1}, CONFIG)
    assert raised.value.path == path
    assert graph.get_state(CONFIG).next == ("a",)


def test_interrupt_with_payload_nested_200_levels_raises_payload_limit_error() -> None:
    payload: Any = []
    for _ in range(200):
        payload = [payload]
    with pytest.raises(PayloadLimitError):
        saved(line(a=asks(payload))).invoke({"x": 1}, CONFIG)


def test_interrupt_with_oversized_integer_raises_payload_limit_error_with_path() -> None:
    graph = saved(line(a=asks({"amounts": [1, -(2**20_000)]})))
    with pytest.raises(PayloadLimitError, match=r"20,001 bits at \$\.amounts\[1\]"):
        graph.invoke({"x": 1}, CONFIG)
    assert json.dumps(2**MAX_BITS - 1)


# What may be answered.


class Order(pydantic.BaseModel):
    amount: int
    currency: str = "EUR"


def order(state: State) -> dict[str, Any]:
    given = interrupt("amount?", response_schema=Order)
    return {"log": [given.amount, given.currency]}


def test_response_is_validated_and_converted_by_response_schema_model() -> None:
    graph = paused(line(a=order))
    [asked] = graph.get_state(CONFIG).interrupts
    assert asked.response_schema["properties"]["amount"]["type"] == "integer"
    assert answer(graph, {"amount": "12"})["log"] == [12, "EUR"]


def test_response_failing_its_schema_raises_invalid_answer_error_and_leaves_interrupt_pending() -> (
    None
):
    graph = paused(side_by_side(a=order, b=says("b")))
    with pytest.raises(InvalidAnswerError) as raised:
        answer(graph, {"amount": "much"})
    assert [pointer for pointer, _ in raised.value.faults] == ["/amount"]
    assert "node 'a'" in str(raised.value)
    assert list(open_interrupts(graph)) == ["amount?"]
    assert answer(graph, {"amount": 1})["log"] == [1, "EUR", "b"]


def test_response_failing_its_schema_is_not_retried_by_retry_policy() -> None:
    policy = RetryPolicy(0.0001, jitter=False, retry_on=Exception)
    graph = StateGraph(State).add_node("a", order, retry_policy=policy).add_edge("__start__", "a")
    with pytest.raises(InvalidAnswerError):
        answer(paused(graph), {"amount": None})


@pytest.mark.promise("P5")
@pytest.mark.parametrize("key", [None, "k"])
def test_stored_response_failing_its_schema_makes_interrupt_pending_with_refusal(
    key: str | None,
) -> None:
    def ask(state: State) -> State:
        before = interrupt("name?", key=key and f"{key}0")
        given = interrupt("amount?", response_schema=Order, key=key)
        return {"log": [before, given.amount]}

    graph = paused(line(a=ask))
    for stored in ("Ada", {"amount": "much"}, {"amount": "more"}, {"amount": 7}):
        [task] = graph.get_state(CONFIG).tasks
        channel, value = RESUME, [stored] if stored == "Ada" else ["Ada", stored]
        if key:
            channel, names = KEYED, [f"{key}0", key]
            value = dict(zip(names, value, strict=False))
        graph.saver.put_writes(graph.get_state(CONFIG).config, [(channel, value)], task.id)
        outcome = graph.advance(CONFIG)
        if stored == {"amount": 7}:
            break
        [pending] = outcome.pending_interrupts
        assert pending.refusal.count("/amount") == (stored != "Ada")
        assert list(open_interrupts(graph)) == ["amount?"]
    assert outcome.status == "finished"
    assert log_of(graph) == ["Ada", 7]


def test_invalid_response_to_one_node_does_not_stop_sibling_with_valid_response() -> None:
    graph = paused(side_by_side(a=order, b=asks("qb")))
    ids = open_interrupts(graph)
    with pytest.raises(InvalidAnswerError):
        answer(graph, {ids["amount?"]: "wrong", ids["qb"]: "B"})
    assert log_of(graph) == ["B"]
    assert answer(graph, {"amount": 3})["log"] == [3, "EUR", "B"]


def test_response_schema_given_as_dict_is_exposed_but_not_validated() -> None:
    schema = {"type": "integer"}
    graph = paused(line(a=lambda s: {"log": [interrupt("q", response_schema=schema)]}))
    assert graph.get_state(CONFIG).interrupts[0].response_schema == schema
    assert answer(graph, "no integer")["log"] == ["no integer"]
