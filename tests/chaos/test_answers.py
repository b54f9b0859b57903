"""Responses to many interrupts in any order: each task receives the response to its interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from hitl_django import END, START, StateGraph, services, testing
from hitl_django.engine.task.node_api import get_runtime
from hitl_django.engine.types import Send
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from tests.reading import values_of

from . import invariants
from .graphs import EMPTY, State, counted, work

pytestmark = [pytest.mark.long, pytest.mark.django_db, pytest.mark.promise("P4")]


def beside() -> StateGraph:
    """Build a graph with twenty parallel nodes. Every fifth node interrupts three times."""
    graph = StateGraph(State)
    for number in range(20):
        name = f"n{number}"
        asked = [f"{name}, {time}?" for time in range(1 if number % 5 else 3)]
        graph.add_node(name, work(name, *asked)).add_edge(START, name).add_edge(name, END)
    return graph


def sent() -> StateGraph:
    """Build a graph with one node that is sent fifty times."""

    def one(which: Any) -> Any:
        return counted(get_runtime(), "one", f"{which}?")

    graph = StateGraph(State).add_node("one", one).add_edge("one", END)
    return graph.add_conditional_edges(
        START, lambda _: [Send("one", n) for n in range(50)], ["one"]
    )


def below() -> StateGraph:
    """Build a graph with nested subgraphs that interrupt on both levels, and a parallel node."""

    def asking(side: str) -> Callable[[Any], Any]:
        low = StateGraph(State).add_node("low", work("low", f"{side} low?", f"{side} low still?"))
        lowest = low.add_edge(START, "low").add_edge("low", END).compile()
        graph = StateGraph(State).add_node("lowest", lambda state: lowest.invoke(EMPTY))
        graph.add_node("asks", work("asks", f"{side} middle?")).add_edge(START, "asks")
        middle = graph.add_edge(START, "lowest").add_edge(["asks", "lowest"], END).compile()
        return lambda state: middle.invoke(EMPTY)

    graph = StateGraph(State).add_node("beside", work("beside", "beside?"))
    for name in ("left", "right"):
        graph.add_node(name, asking(name)).add_edge(START, name).add_edge(name, END)
    return graph.add_edge(START, "beside").add_edge("beside", END)


def again() -> StateGraph:
    """Build a graph with a loop whose node interrupts each time with the same payload."""

    def ask(state: Any) -> Any:
        return counted(get_runtime(), "ask", "again?")

    def on(state: Any) -> str:
        return "ask" if len(state["answers"]) < 4 else END

    return (
        StateGraph(State)
        .add_node("ask", ask)
        .add_edge(START, "ask")
        .add_conditional_edges("ask", on)
    )


#: The number of interrupts of each graph.
GRAPHS = {beside: 28, sent: 50, below: 7, again: 4}


@pytest.fixture(params=GRAPHS, ids=lambda made: made.__name__)
def asking(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    registry.register("asking")(request.param)
    yield "asking", GRAPHS[request.param]
    registry.unregister("asking")


def test_each_parallel_task_receives_its_response_if_responses_arrive_in_random_order(
    asking: tuple[str, int], amount: Callable[[int, int], int], chance: Random
) -> None:
    graph, wanted = asking
    for _ in range(amount(2, 75)):
        with testing.inline() as advance:
            run = services.start(graph, EMPTY)
            advance()
            given = answered_at_random(run.id, wanted, chance, advance)
        assert Run.objects.get(pk=run.id).state == "succeeded", Run.objects.get(pk=run.id).error
        values = values_of(Thread.objects.get(thread_id=run.thread_id))
        assert sorted(map(tuple, values["answers"])) == sorted(given)
        assert len(given) == wanted
        assert invariants.faults() == []
        Thread.objects.all().delete()


def answered_at_random(
    run: Any, wanted: int, chance: Random, advance: Callable[[], int]
) -> list[tuple[str, str]]:
    """Answer the interrupts of a run in several decisions; return them with their responses."""
    given: list[tuple[str, str]] = []
    asked = Interrupt.objects.filter(run=run, status="pending").order_by("pk")
    while waiting := list(asked.all()):
        for interrupt in chance.sample(waiting, chance.randint(1, len(waiting))):
            answer = f"{interrupt.payload} {len(given)}"
            services.decide(interrupt.pk, "respond", answer)
            given.append((interrupt.payload, answer))
        assert len(given) <= wanted, "an answered interrupt was raised again"
        advance()
    return given
