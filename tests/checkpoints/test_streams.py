"""Order of streams and storage: emitted chunks have been stored, unless the run is stored at its
exit.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, entrypoint, interrupt, task
from hitl_django.engine.errors import UnserializableError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, CheckpointTuple

from .test_conformance import saver

__all__ = ["saver"]

CONFIG = {"configurable": {"thread_id": "t"}}
MODES = ["updates", "values", "tasks", "checkpoints"]
Saver = BaseCheckpointSaver


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]


def side_by_side(*names: str) -> StateGraph[Any]:
    graph = StateGraph(State).add_node("end", lambda state: {"log": ["end"]})
    for name in names:
        graph.add_node(name, lambda state, name=name: {"log": [name]})
        graph.add_edge(START, name).add_edge(name, "end")
    return graph


def list_log(found: CheckpointTuple | None) -> list[str]:
    """Return the stored log of the newest checkpoint and of pending tasks."""
    if found is None:
        return []
    log = list(found.checkpoint["channel_values"].get("log", []))
    for _, name, value in found.pending_writes or ():
        log += value if name == "log" else []
    return log


def logged(mode: str, data: Any) -> list[str]:
    if mode == "updates":
        return [entry for update in data.values() for entry in (update or {}).get("log", [])]
    if mode in ("values", "checkpoints"):
        return list((data if mode == "values" else data["values"]).get("log", []))
    return list((data.get("result") or {}).get("log", []))


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c")])
@pytest.mark.parametrize("mode", MODES)
def test_streamed_step_is_stored_before_its_chunk_is_yielded(
    saver: Saver, names: tuple[str, ...], mode: Any
) -> None:
    graph = side_by_side(*names).compile(checkpointer=saver)
    told = []
    for data in graph.stream({"x": 1}, CONFIG, stream_mode=mode, durability="sync"):
        told.append(data)
        assert set(logged(mode, data)) <= set(list_log(saver.get_tuple(CONFIG)))
    assert "end" in str(told)


@pytest.mark.parametrize("mode", MODES)
def test_async_streamed_step_is_stored_before_its_chunk_is_yielded(saver: Saver, mode: Any) -> None:
    async def go_through() -> int:
        graph = side_by_side("a", "b").compile(checkpointer=saver)
        count = 0
        async for data in graph.astream({"x": 1}, CONFIG, stream_mode=mode):
            count += 1
            assert set(logged(mode, data)) <= set(list_log(await saver.aget_tuple(CONFIG)))
        return count

    assert async_to_sync(go_through)() > 2


def test_stream_closed_at_first_update_has_stored_that_update(saver: Saver) -> None:
    calls: list[str] = []

    def once(state: State) -> State:
        calls.append("once")
        return {"log": ["once"]}

    graph = StateGraph(State).add_node("once", once).add_edge(START, "once")
    compiled = graph.compile(checkpointer=saver)
    stream = compiled.stream({"x": 1}, CONFIG, stream_mode="updates", durability="sync")
    assert next(stream) == {"once": {"log": ["once"]}}
    stream.close()
    compiled.invoke(None, CONFIG)
    assert (calls, compiled.get_state(CONFIG).values["log"]) == (["once"], ["once"])


def test_stream_yields_no_update_that_cannot_be_stored(saver: Saver) -> None:
    graph = StateGraph(State).add_node("good", lambda state: {"log": ["good"]})
    graph.add_node("bad", lambda state: {"x": object()})
    graph.add_edge(START, "good").add_edge(START, "bad")
    compiled = graph.compile(checkpointer=saver)
    told: list[Any] = []
    with pytest.raises(UnserializableError, match="bad"):
        told.extend(compiled.stream({"x": 1}, CONFIG, stream_mode="updates"))
    assert told == [{"good": {"log": ["good"]}}]


def test_stream_yields_results_of_parallel_node_when_run_pauses_at_interrupt(saver: Saver) -> None:
    graph = side_by_side("a").add_node("ask", lambda state: {"log": [interrupt("?")]})
    graph.add_edge(START, "ask")
    told = list(
        graph.compile(checkpointer=saver).stream(
            {"x": 1}, CONFIG, stream_mode=["values", "updates"]
        )
    )
    assert told[-1] == ("values", {"x": 1, "log": ["a"]})
    assert ("updates", {"a": {"log": ["a"]}}) in told


def test_result_of_called_task_is_stored_before_stream_yields_the_result(saver: Saver) -> None:
    @task
    def double(number: int) -> int:
        return 2 * number

    @entrypoint(checkpointer=saver)
    def work(number: int) -> int:
        return double(number).result()

    stream = work.stream(4, CONFIG, stream_mode="updates")
    assert next(stream) == {"double": 8}
    found = saver.get_tuple(CONFIG)
    assert found is not None
    assert 8 in [value for _, _, value in found.pending_writes or ()]
    assert list(stream) == [{"work": 8}]
