"""Streams of a run, by mode."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl_django import Command
from hitl_django.engine.drivers.thread_pool import TaskThreads
from hitl_django.engine.task.node_api import get_stream_writer

from .graphs import CONFIG, State, asks, line, paused, saved, says, side_by_side


def told(graph: Any, value: Any, **options: Any) -> list[Any]:
    """Return the stream of both drivers, which must be equal."""
    chunks = list(graph.stream(value, CONFIG, **options))

    async def collect(twin: Any) -> list[Any]:
        return [chunk async for chunk in twin.astream(value, CONFIG, **options)]

    graph.checkpointer.delete_thread("thread")
    assert repr(asyncio.run(collect(graph))) == repr(chunks)
    graph.checkpointer.delete_thread("thread")
    return chunks


def two() -> Any:
    return saved(line(a=says("a"), b=says("b", x=2)))


def test_stream_without_mode_yields_updates() -> None:
    updates = [{"a": {"log": ["a"]}}, {"b": {"log": ["b"], "x": 2}}]
    assert told(two(), {"x": 1}) == updates
    assert told(two(), {"x": 1}, stream_mode="updates") == updates


def test_stream_mode_values_yields_state_after_input_and_each_super_step() -> None:
    assert told(two(), {"x": 1}, stream_mode="values") == [
        {"x": 1, "log": []},
        {"x": 1, "log": ["a"]},
        {"x": 2, "log": ["a", "b"]},
    ]


def test_stream_with_several_modes_yields_pairs_of_mode_and_chunk() -> None:
    chunks = told(two(), {"x": 1}, stream_mode=["values", "updates"])
    assert [mode for mode, _ in chunks] == ["values", "updates", "values", "updates", "values"]


def test_stream_of_node_without_writes_yields_none_as_its_update() -> None:
    assert told(saved(line(a=lambda state: None)), {"x": 1}) == [{"a": None}]


def test_stream_of_node_with_several_updates_yields_a_list_of_updates() -> None:
    graph = saved(line(a=lambda state: [Command(update={"log": ["1"]}), {"log": ["2"]}]))
    assert told(graph, {"x": 1}) == [{"a": [{"log": ["1"]}, {"log": ["2"]}]}]


def test_custom_stream_chunks_of_node_precede_its_update() -> None:
    def node(state: Any) -> dict[str, Any]:
        write = get_stream_writer()
        write("one")
        write({"two": 2})
        return {"log": ["a"]}

    chunks = told(saved(line(a=node)), {"x": 1}, stream_mode=["custom", "updates"])
    assert chunks == [
        ("custom", "one"),
        ("custom", {"two": 2}),
        ("updates", {"a": {"log": ["a"]}}),
    ]


def test_custom_stream_chunks_are_not_yielded_in_updates_mode() -> None:
    def node(state: Any) -> None:
        get_stream_writer()("unheard")

    assert told(saved(line(a=node)), {"x": 1}, stream_mode="updates") == [{"a": None}]


def test_interrupt_is_yielded_in_stream_modes_updates_and_values() -> None:
    chunks = list(
        saved(line(a=asks("q"))).stream({"x": 1}, CONFIG, stream_mode=["updates", "values"])
    )
    (_, values), (_, update), (_, last) = chunks
    assert values == {"x": 1, "log": []}
    assert [asked.value for asked in update["__interrupt__"]] == ["q"]
    assert last["log"] == []
    assert [asked.value for asked in last["__interrupt__"]] == ["q"]


def test_stream_of_resumed_run_yields_state_before_the_first_new_step() -> None:
    graph = paused(line(a=asks("q"), b=says("b")))
    chunks = list(graph.stream(Command(resume="yes"), CONFIG, stream_mode="values"))
    assert [chunk["log"] for chunk in chunks] == [[], ["yes"], ["yes", "b"]]


def test_stream_of_resumed_run_marks_already_finished_tasks_as_cached() -> None:
    graph = paused(side_by_side(a=asks("q"), b=says("b")))
    chunks = list(graph.stream(Command(resume="yes"), CONFIG))
    assert chunks == [
        {"b": {"log": ["b"]}, "__metadata__": {"cached": True}},
        {"a": {"log": ["yes"]}},
    ]


def test_stream_mode_tasks_yields_failed_task_before_raising_its_error() -> None:
    heard: list[Any] = []
    chunks = saved(line(a=lambda state: 1 / 0)).stream({"x": 1}, CONFIG, stream_mode="tasks")
    with pytest.raises(ZeroDivisionError):
        heard.extend(chunks)
    assert [("input" in chunk, repr(chunk.get("error"))) for chunk in heard] == [
        (True, "None"),
        (False, "ZeroDivisionError('division by zero')"),
    ]


def test_stream_mode_tasks_yields_each_task_at_its_start_and_end() -> None:
    chunks = list(two().stream({"x": 1}, CONFIG, stream_mode="tasks"))
    assert [(chunk["name"], "triggers" in chunk) for chunk in chunks] == [
        *(("a", True), ("a", False), ("b", True), ("b", False))
    ]
    assert chunks[0]["id"] == chunks[1]["id"]
    assert chunks[1]["result"] == {"log": ["a"]}


def test_stream_mode_checkpoints_yields_each_stored_checkpoint() -> None:
    graph = two()
    chunks = list(graph.stream({"x": 1}, CONFIG, stream_mode="checkpoints"))
    history = list(graph.get_state_history(CONFIG))[::-1]
    assert [chunk["config"] for chunk in chunks] == [record.config for record in history]
    assert [tuple(chunk["next"]) for chunk in chunks] == [record.next for record in history]


def test_stream_mode_debug_yields_tasks_task_results_and_checkpoints() -> None:
    chunks = list(two().stream({"x": 1}, CONFIG, stream_mode="debug"))
    kinds = [(chunk["step"], chunk["type"]) for chunk in chunks]
    assert kinds == [
        *((-1, "checkpoint"), (0, "checkpoint")),
        *((1, "task"), (1, "task_result"), (1, "checkpoint")),
        *((2, "task"), (2, "task_result"), (2, "checkpoint")),
    ]


def test_stream_yields_subgraph_chunks_only_with_subgraphs_true() -> None:
    child = line(c=says("c")).compile()
    graph = saved(line(a=says("a"), sub=child))
    quiet = list(graph.stream({"x": 1}, CONFIG))
    assert [list(chunk) for chunk in quiet] == [["a"], ["sub"]]
    graph.checkpointer.delete_thread("thread")
    heard = [(ns, list(chunk)) for ns, chunk in graph.stream({"x": 1}, CONFIG, subgraphs=True)]
    assert [(tuple(level.partition(":")[0] for level in ns), names) for ns, names in heard] == [
        *(((), ["a"]), (("sub",), ["c"]), ((), ["sub"]))
    ]


def test_invoke_with_stream_mode_updates_returns_list_of_all_updates() -> None:
    assert two().invoke({"x": 1}, CONFIG, stream_mode="updates") == [
        {"a": {"log": ["a"]}},
        {"b": {"log": ["b"], "x": 2}},
    ]


def test_invoke_with_stream_mode_custom_returns_chunks_written_after_parallel_step() -> None:
    def writes(name: str) -> Any:
        return lambda state: get_stream_writer()(name) or {"log": [name]}

    graph = side_by_side(a=writes("a"), b=writes("b")).add_node("c", writes("c"))
    found = saved(graph.add_edge("a", "c").add_edge("b", "c"))
    assert found.invoke({"x": 1}, CONFIG, stream_mode="custom") == ["a", "b", "c"]


def test_custom_stream_chunks_written_after_parallel_step_do_not_accumulate_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[TaskThreads] = []
    begin = TaskThreads.__init__

    def noted(threads: TaskThreads, *args: Any, **options: Any) -> None:
        made.append(threads)
        begin(threads, *args, **options)

    def tells(state: State) -> None:
        for number in range(1000):
            get_stream_writer()(number)

    monkeypatch.setattr(TaskThreads, "__init__", noted)
    graph = side_by_side(a=says("a"), b=says("b")).add_node("tells", tells)
    graph.add_edge(["a", "b"], "tells")
    told_of = saved(graph).invoke({"x": 1}, CONFIG, stream_mode="custom")
    assert told_of == [*range(1000)]
    assert made[0].inbox.qsize() <= 1
