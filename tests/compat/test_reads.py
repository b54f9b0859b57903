"""Reads of a thread during a run, at checkpoints and with subgraphs, in both engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .cases_asking import asks, one, parallel
from .cases_flow import chain, says
from .driving import CONFIG, attempted, snapshot
from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


def finished(engine: Engine) -> Any:
    """Return a thread that ran twice to its end."""
    graph = chain(engine, "a", "b", "c").compile(checkpointer=engine.InMemorySaver())
    graph.invoke({"x": 1}, CONFIG)
    graph.invoke({"x": 2}, CONFIG)
    return graph


def partly_answered(engine: Engine) -> Any:
    """Return a thread with one answered and one open question, and one finished task."""
    graph = parallel(engine, a=asks(engine, "qa"), b=asks(engine, "qb"), c=says("c"))
    graph = graph.compile(checkpointer=engine.InMemorySaver())
    graph.invoke({"x": 1}, CONFIG)
    answers = {asked.id: "A" for asked in graph.get_state(CONFIG).interrupts if asked.value == "qa"}
    graph.invoke(engine.Command(resume=answers), CONFIG)
    return graph


def with_a_child(engine: Engine) -> Any:
    """Return a thread whose child waits for an answer."""
    child = one(engine, asks(engine, "child?"), "cb").compile()
    graph = chain(engine, "p").add_node("sub", child).add_edge("p", "sub")
    graph = graph.compile(checkpointer=engine.InMemorySaver())
    graph.invoke({"x": 1}, CONFIG)
    return graph


def empty(engine: Engine) -> Any:
    """Return a thread that never ran."""
    return chain(engine, "a").compile(checkpointer=engine.InMemorySaver())


THREADS = [finished, partly_answered, with_a_child, empty]


def place(**more: Any) -> Any:
    return {"configurable": {**CONFIG["configurable"], **more}}


def history(graph: Any, **options: Any) -> Any:
    return [snapshot(record) for record in graph.get_state_history(CONFIG, **options)]


def at(graph: Any, position: int) -> Any:
    records = list(graph.get_state_history(CONFIG))
    return records[position].config if len(records) > position else place()


async def ahistory(graph: Any) -> Any:
    return [snapshot(record) async for record in graph.aget_state_history(CONFIG)]


READS: dict[str, Callable[[Any], Any]] = {
    "live": lambda g: snapshot(g.get_state(CONFIG)),
    "live with children": lambda g: snapshot(g.get_state(CONFIG, subgraphs=True)),
    "live, async": lambda g: snapshot(asyncio.run(g.aget_state(CONFIG, subgraphs=True))),
    "the record of the last step": lambda g: snapshot(g.get_state(place(checkpoint_id=None))),
    "the record by its id": lambda g: snapshot(g.get_state(at(g, 0))),
    "an older record": lambda g: snapshot(g.get_state(at(g, 2))),
    "an older record with children": lambda g: snapshot(g.get_state(at(g, 1), subgraphs=True)),
    "the history": history,
    "the history, async": lambda g: asyncio.run(ahistory(g)),
    "the newest two": lambda g: history(g, limit=2),
    "none": lambda g: history(g, limit=0),
    "before an older one": lambda g: history(g, before=at(g, 2)),
    "those of the input": lambda g: history(g, filter={"source": "input"}),
    "those of a step": lambda g: history(g, filter={"source": "loop", "step": 1}),
    "those of no step": lambda g: history(g, filter={"source": "nowhere"}),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: thread.__name__)
def test_thread_state_and_history_match_langgraph(
    thread: Callable[[Engine], Any], read: str
) -> None:
    ours, theirs = thread(OURS), thread(LANGGRAPH)
    assert attempted(lambda: READS[read](ours)) == attempted(lambda: READS[read](theirs))


@pytest.mark.parametrize("recurse", [False, True])
def test_get_subgraphs_with_namespace_and_recurse_matches_langgraph(recurse: bool) -> None:
    def found(engine: Engine) -> list[str]:
        lowest = chain(engine, "l").compile()
        middle = chain(engine, "m").add_node("low", lowest).add_edge("m", "low").compile()
        graph = chain(engine, "t").add_node("mid", middle).add_edge("t", "mid").compile()
        names = [name for name, _ in graph.get_subgraphs(recurse=recurse)]
        return names + [name for name, _ in graph.get_subgraphs(namespace="mid", recurse=recurse)]

    assert found(OURS) == found(LANGGRAPH)


def test_state_access_without_checkpointer_raises_error_message_of_langgraph() -> None:
    for engine in (OURS, LANGGRAPH):
        graph = chain(engine, "a").compile()
        for call in (graph.get_state, lambda c, g=graph: list(g.get_state_history(c)),
                     lambda c, g=graph: g.update_state(c, {"x": 1})):  # fmt: skip
            with pytest.raises(Exception, match="No checkpointer set"):
                call(CONFIG)
