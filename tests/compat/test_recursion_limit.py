"""The number of super-steps until a run reaches its recursion limit."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Annotated, Any

import pytest
from langgraph.errors import GraphRecursionError
from typing_extensions import TypedDict

from hitl_django.contrib.langgraph.registered_graph import LangGraphAdapter

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


class State(TypedDict, total=False):
    log: Annotated[list[int], operator.add]


def build(engine: Engine, ran: list[int], asks_at: int | None) -> Any:
    """Return an endless graph, which asks a person in one of its super-steps."""

    def node(state: State) -> State:
        if len(state["log"]) == asks_at:
            engine.interrupt("go on?")
        ran.append(1)
        return {"log": [1]}

    graph = engine.StateGraph(State).add_node("node", node)
    return graph.add_edge(engine.START, "node").add_edge("node", "node")


def count_calls(limit: int, asks_at: int | None) -> list[int]:
    """Return the number of node calls before and after the interrupt in LangGraph."""
    ran: list[int] = []
    graph = build(LANGGRAPH, ran, asks_at).compile(checkpointer=LANGGRAPH.InMemorySaver())
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": limit}
    counts = []
    inputs: list[Any] = [{"log": []}, LANGGRAPH.Command(resume=1)]
    for given in inputs[: 1 if asks_at is None else 2]:
        ran.clear()
        with suppress(GraphRecursionError):
            graph.invoke(given, config)
        counts.append(len(ran))
    return counts


@pytest.mark.parametrize("asks_at", [None, 0, 2])
@pytest.mark.parametrize("limit", [2, 3, 5])
@pytest.mark.parametrize("is_registered", [False, True])
def test_worker_run_makes_same_number_of_steps_as_langgraph_from_start_and_after_interrupt(
    limit: int, asks_at: int | None, is_registered: bool
) -> None:
    ran: list[int] = []
    graph: Any
    if is_registered:
        graph = LangGraphAdapter(build(LANGGRAPH, ran, asks_at).compile())
    else:
        graph = build(OURS, ran, asks_at).compile()
    graph.checkpointer = OURS.InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.submit({"log": []}, config)
    counts = []
    outcome = graph.advance({**config, "recursion_limit": limit})
    counts.append(len(ran))
    if asks_at is not None and outcome.status == "interrupted":
        ran.clear()
        asked = outcome.pending_interrupts[0]
        answer(graph.saver, asked)
        outcome = graph.advance({**config, "recursion_limit": limit})
        counts.append(len(ran))
    assert outcome.status == "out_of_steps"
    assert f"Recursion limit of {limit} reached" in str(outcome.error)
    assert counts == count_calls(limit, asks_at)[: len(counts)]


def answer(saver: Any, asked: Any) -> None:
    """Store a resume value, as a decision does."""
    coordinates = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": asked.checkpoint_id}
    saver.put_writes({"configurable": coordinates}, [("__resume__", [1])], asked.task_id)
