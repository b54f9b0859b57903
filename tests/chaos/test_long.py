"""A run of ten thousand rounds: time slices, and constant cost per round.

``--soak`` runs ten thousand rounds. By default, a few hundred rounds are sufficient.
"""

from __future__ import annotations

import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, services
from hitl_django.engine.task.runtime import RunControl
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Run
from hitl_django.worker import runner

from . import invariants, recovery

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.promise("P12"),
]

#: Maximum memory growth per round in bytes, far below the size of a channel or a checkpoint.
NOISE = 512
#: Number of time slices in which a run is executed.
SLICES = 12


class Rounds(TypedDict):
    count: int
    wanted: int


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Build a graph with a loop, with the same number of rounds per time slice on any machine."""
    controls: list[RunControl] = []

    class Control(RunControl):
        def __init__(self) -> None:
            super().__init__()
            controls[:] = [self]

    monkeypatch.setattr(runner, "RunControl", Control)

    def go(state: Any) -> Any:
        count = state["count"] + 1
        if count % (state["wanted"] // SLICES) == 0:
            controls[0].request_drain("time slice used up")
        return {"count": count}

    def further(state: Any) -> str:
        return "go" if state["count"] < state["wanted"] else END

    graph = StateGraph(Rounds).add_node("go", go).add_edge(START, "go")
    registry.register("rounds")(lambda: graph.add_conditional_edges("go", further))
    yield "rounds"
    registry.unregister("rounds")


@pytest.fixture
def traced() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    tracemalloc.start()
    yield
    tracemalloc.stop()
    logging.disable(logging.NOTSET)


def held_by(act: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.reset_peak()
    act()
    return tracemalloc.get_traced_memory()[1]


def queries_of(look: Callable[[], Any]) -> int:
    count = 0

    def counting(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*arguments)

    # Django's query log stores the texts, which would distort the measurement.
    with connection.execute_wrapper(counting):
        look()
    return count


def test_long_run_is_requeued_regularly_and_uses_constant_memory_and_queries(
    rounds: str,
    traced: None,
    amount: Callable[[int, int], int],
    settings: Any,
    figures: Callable[[str], None],
) -> None:
    wanted = amount(600, 10_000)
    settings.HITL = {"RECURSION_LIMIT": wanted + 1}
    info = services.start(rounds, {"count": 0, "wanted": wanted})

    def look() -> tuple[int, int]:
        name = info.thread_id
        return (
            queries_of(lambda: services.thread_state(name)),
            queries_of(lambda: services.thread_history(name)),
        )

    held, edges, looks = [], [], []
    while recovery.state_of(info.id) == "queued":
        held.append(held_by(lambda: recovery.deliver(most=1)))
        edges.append(Run.objects.get(pk=info.id).step)
        looks.append(look())
    figures(
        f"{wanted:,} steps in {len(edges)} slices: {looks[-1][0]} and {looks[-1][1]} queries for "
        f"state and history, {held[1]:,} to {held[-1]:,} bytes of memory"
    )

    assert recovery.state_of(info.id) == "succeeded"
    assert services.run_result(info.id)["count"] == wanted
    assert len(edges) >= SLICES
    assert edges == sorted(set(edges)), "a time slice made no progress"
    assert Run.objects.get(pk=info.id).thread.epoch == len(edges)
    assert Checkpoint.objects.filter(thread__thread_id=info.thread_id).count() == edges[-1] + 2
    assert set(looks[1:]) == {looks[1]}
    half = len(held) // 2
    assert max(held[half:]) < max(held[:half]) + NOISE * wanted // 2, held
    assert invariants.faults() == []
