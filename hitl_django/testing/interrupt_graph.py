"""A graph that creates an interrupt with any given payload and options, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.graph_registry import registry
from hitl_django.review_options import review

NAME = "hitl-testing-question"


class Asking(TypedDict, total=False):
    """The graph's state: the number of the interrupt, and the response."""

    number: int
    answer: Any


#: The payloads and options of the interrupts. They are in memory, because not all options can be
#: stored.
_asked: list[tuple[Any, dict[str, Any]]] = []


def build_input(payload: Any, review_options: dict[str, Any]) -> Asking:
    """Return the input for a run that creates an interrupt with this payload and these options.

    Call this function inside a ``with registered():`` block. At the end of the block, the payload
    and the options are removed from memory.
    """
    _asked.append((payload, review_options))
    return {"number": len(_asked) - 1}


@contextmanager
def registered() -> Iterator[None]:
    """Register the graph until the end of the block."""
    registry.register(NAME)(_build)
    try:
        yield
    finally:
        registry.unregister(NAME)
        _asked.clear()


def _ask(state: Asking) -> Asking:
    payload, review_options = _asked[state["number"]]
    return {"answer": review(payload, **review_options)}


def _build() -> StateGraph[Any]:
    return StateGraph(Asking).add_node("ask", _ask).add_edge(START, "ask")
