"""The measured graph: three steps, of which the second requests a decision as in the README."""

from __future__ import annotations

import time
from typing import Any, TypedDict

from pydantic import BaseModel

from hitl_django import END, START, StateGraph, interrupt, register
from hitl_django.signals import interrupt_created, run_succeeded

from ..worker import signs

GRAPH = "bench-refund"


class Decision(BaseModel):
    approved: bool
    note: str = ""


class Refund(TypedDict, total=False):
    customer: str
    cents: int
    #: Seconds that the last step takes.
    waits: float
    checked: bool
    approved: bool
    outcome: str


def check(state: Refund) -> Refund:
    return {"checked": state["cents"] < 100_000}


def review(state: Refund) -> Refund:
    title = f"Refund {state['cents'] / 100:.2f} EUR to {state['customer']}"
    decision = interrupt({"title": title}, response_schema=Decision)
    return {"approved": decision.approved}


def settle(state: Refund) -> Refund:
    signs.give("next", "step")
    time.sleep(state.get("waits", 0))
    return {"outcome": "paid" if state["approved"] else "declined"}


@register(GRAPH, version="1")
def refund() -> StateGraph:
    graph = StateGraph(Refund).add_node(check).add_node(review).add_node(settle)
    graph.add_edge(START, "check").add_edge("check", "review").add_edge("review", "settle")
    return graph.add_edge("settle", END)


def _asked(**kwargs: Any) -> None:
    signs.give("asked", "run")


def _ended(run_id: str, **kwargs: Any) -> None:
    signs.give("ended", run_id)


interrupt_created.connect(_asked, dispatch_uid=__name__)
run_succeeded.connect(_ended, dispatch_uid=__name__)
