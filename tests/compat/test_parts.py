"""Version 2 of chunks and results, and default streams, compared with LangGraph's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from .driving import plain
from .engines import LANGGRAPH, OURS, Engine
from .test_savers import ELSEWHERE, STORED, run_here

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG = {"configurable": {"thread_id": "t"}}


class Needing(BaseModel):
    """A state that isn't one before the input has come."""

    x: int


def compiled(engine: Engine) -> Any:
    graph = engine.StateGraph(Needing).add_node("n", lambda state: {"x": state.x + 1})
    return graph.add_edge(engine.START, "n").compile(checkpointer=engine.InMemorySaver())


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [part async for part in stream]


def called(engine: Engine, way: str, mode: Any) -> Any:
    graph = compiled(engine)
    if way == "ainvoke":
        result = run_here(graph.ainvoke({"x": 1}, CONFIG, stream_mode=mode, version="v2"))
    elif way == "astream":
        stream = graph.astream({"x": 1}, CONFIG, stream_mode=mode, version="v2")
        result = run_here(collect(stream))
    elif way == "invoke":
        result = graph.invoke({"x": 1}, CONFIG, stream_mode=mode, version="v2")
    else:
        result = list(graph.stream({"x": 1}, CONFIG, stream_mode=mode, version="v2"))
    return [plain(part) for part in result] if isinstance(result, list) else result.value


@pytest.mark.parametrize(
    "mode", ["values", "updates", "checkpoints", "debug", ["updates", "values"]]
)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(OURS, id="memory"),
        pytest.param(ELSEWHERE, id="elsewhere"),
        pytest.param(STORED, id="django", marks=pytest.mark.django_db),
    ],
)
def test_version_2_output_with_memory_third_party_and_django_saver_matches_langgraph(
    engine: Engine, way: str, mode: Any
) -> None:
    assert called(engine, way, mode) == called(LANGGRAPH, way, mode)


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_pregel_streams_values_and_state_graph_streams_updates_by_default(engine: Engine) -> None:
    node = engine.NodeBuilder().subscribe_only("a").do(lambda a: a + "!").write_to("b")
    pregel = engine.Pregel(
        nodes={"n": node},
        channels={
            "a": engine.channels.EphemeralValue(str),
            "b": engine.channels.EphemeralValue(str),
        },
        input_channels=["a"],
        output_channels=["b"],
    )
    assert list(pregel.stream({"a": "x"})) == [{"b": "x!"}]
    assert list(compiled(engine).stream({"x": 1}, CONFIG)) == [{"n": {"x": 2}}]
