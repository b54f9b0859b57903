"""Output of ``print_mode`` and ``debug``, compared with LangGraph's."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from .engines import LANGGRAPH, OURS, Engine


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


def add_one(state: State) -> State:
    return {"x": state["x"] + 1}


@pytest.mark.parametrize(
    "how",
    [
        {"print_mode": "values"},
        {"print_mode": ["updates", "custom"], "stream_mode": "values"},
        {"print_mode": "updates", "subgraphs": True},
        {"debug": True},
        {"debug": True, "stream_mode": ["updates", "values"], "subgraphs": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_print_mode_and_debug_output_matches_langgraph(
    how: dict[str, Any], way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for engine in (OURS, LANGGRAPH):
        got = run_printing(nested(engine), way, how)
        seen.append((forget_ids(got), forget_ids(capsys.readouterr().out)))
    assert seen[0] == seen[1]
    assert seen[0][1]


def forget_ids(printed: Any) -> str:
    """Return a text without the ids of tasks."""
    return "'".join(part.partition(":")[0] for part in str(printed).split("'"))


def nested(engine: Engine, **how: Any) -> Any:
    below = engine.StateGraph(State).add_node("inner", add_one).add_edge(engine.START, "inner")
    graph = engine.StateGraph(State).add_node("node", add_one).add_node("sub", below.compile())
    return graph.add_edge(engine.START, "node").add_edge("node", "sub").compile(**how)


def run_printing(graph: Any, way: str, how: dict[str, Any]) -> Any:
    async def collect() -> list[Any]:
        return [chunk async for chunk in graph.astream({"x": 1}, **how)]

    if way == "astream":
        return asyncio.run(collect())
    if way == "ainvoke":
        return asyncio.run(graph.ainvoke({"x": 1}, **how))
    return list(graph.stream({"x": 1}, **how)) if way == "stream" else graph.invoke({"x": 1}, **how)


def test_output_of_graph_compiled_with_debug_matches_langgraph(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for engine in (OURS, LANGGRAPH):
        nested(engine, debug=True).invoke({"x": 1})
        printed.append(forget_ids(capsys.readouterr().out))
    assert printed[0] == printed[1]
    nested(OURS, debug=True).invoke({"x": 1}, debug=False)
    assert not capsys.readouterr().out
