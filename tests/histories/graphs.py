"""The graphs of the saved threads. Saved data refers to them, so they must not change.

A later version adds graphs with other names for its new features.
"""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel

from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.task.node_api import interrupt, once
from hitl_django.engine.types import Expiry, Send
from hitl_django.graph_registry import registry

#: Values of all types that a thread can store.
VALUES: dict[str, Any] = {
    "none": None,
    "numbers": [0, -1, 2**70, 0.1, -0.0, Decimal("12.50")],
    "text": "Größe \u2028 😀",
    "bytes": b"\x00\xff",
    "times": [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), timedelta(days=1, microseconds=1)],
    "containers": {"tuple": (1, (2,)), "set": {1, 2}, "dict": {"a": {"b": []}}},
}


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], add_messages]
    values: dict[str, Any]


class Order(BaseModel):
    amount: int
    note: str = ""


def plain(state: State) -> State:
    drawn = once("number", lambda: 42)
    first = interrupt({"title": "First?", "text": "x"})
    return {"log": [drawn, first, interrupt(f"Second, after {first}?")]}


def keyed(state: State) -> State:
    return {"log": [interrupt(f"{key}?", key=key) for key in ("b", "a")]}


def typed(state: State) -> State:
    expires = Expiry(timedelta(days=36500), "answer", {"amount": 0})
    order = interrupt("How much?", response_schema=Order, expires=expires)
    return {"log": [order.amount, order.note]}


def filled(state: State) -> State:
    return {"values": VALUES, "messages": [("human", "Good morning")], "log": ["filled"]}


def each(state: dict[str, Any]) -> State:
    return {"log": [(state["n"], interrupt(f"Number {state['n']}?"))]}


def everything() -> StateGraph:
    """Build a graph with values and interrupts of all kinds, in subgraphs and concurrent nodes."""
    deep = StateGraph(State).add_node("plain", plain).add_edge(START, "plain").compile()
    below = StateGraph(State).add_node("deep", deep).add_node("keyed", keyed)
    below.add_edge(START, "deep").add_edge(START, "keyed")
    graph = StateGraph(State).add_node("filled", filled).add_node("below", below.compile())
    graph.add_node("typed", typed).add_node("each", each)
    graph.add_node("joined", lambda state: {"log": ["joined"]})
    graph.add_edge(START, "filled").add_edge("filled", "below").add_edge("filled", "typed")
    graph.add_conditional_edges("filled", lambda state: [Send("each", {"n": n}) for n in (1, 2)])
    graph.add_edge(["below", "typed"], "joined")
    return graph


def gated() -> Any:
    graph = StateGraph(State).add_node("work", lambda state: {"log": ["worked"]})
    return graph.add_edge(START, "work").compile(interrupt_before=["work"])


def register() -> None:
    registry.register("history-everything", events=["states"])(everything)
    registry.register("history-gated", events=["states"])(gated)


def unregister() -> None:
    for name in ("history-everything", "history-gated"):
        registry.unregister(name)


def reply(title: str) -> Any:
    return {"amount": 7, "note": "ok"} if title == "How much?" else f"to {title}"
