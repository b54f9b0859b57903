"""The Runnable interface of compiled graphs without LangChain."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from hitl_django import StateGraph
from hitl_django.engine.graph.run_config import merge_configs
from hitl_django.engine.savers.memory import InMemorySaver


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


@pytest.fixture(autouse=True)
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl_django.engine.graph.runnable.find_langchain", lambda: None)
    monkeypatch.setattr("hitl_django.engine.graph.runnable._RUNNABLES", "no.such.module")


def graph_of(node: Callable[..., Any], saver: Any = None, **how: Any) -> Any:
    graph = StateGraph(State).add_node("node", node).add_edge("__start__", "node")
    return graph.compile(checkpointer=saver, **how)


def add_one(state: State) -> State:
    return {"x": state["x"] + 1}


INPUTS: Any = [{"x": 1}, {"x": 2}, {"x": 3}]


def get_x(results: Any) -> list[Any]:
    return [result["x"] for result in results]


# Several inputs.


def test_graph_batch_runs_its_inputs_concurrently() -> None:
    together = threading.Barrier(3)

    def meet(state: State) -> State:
        together.wait(30)
        return add_one(state)

    assert get_x(graph_of(meet).batch(INPUTS)) == [2, 3, 4]


def test_graph_batch_with_max_concurrency_one_runs_one_input_at_a_time() -> None:
    running, most = [], []

    def count(state: State) -> State:
        running.append(state["x"])
        most.append(len(running))
        running.remove(state["x"])
        return add_one(state)

    config = {"max_concurrency": 1}
    assert get_x(graph_of(count).batch(INPUTS, config)) == [2, 3, 4]
    assert get_x(asyncio.run(graph_of(count).abatch(INPUTS, config))) == [2, 3, 4]
    assert most == [1] * 6


def test_batch_as_completed_yields_results_in_completion_order() -> None:
    first = threading.Event()

    def last(state: State) -> State:
        if state["x"] == 1:
            assert first.wait(30)
        return add_one(state)

    ended = []
    for index, result in graph_of(last).batch_as_completed(INPUTS[:2]):
        ended.append((index, result["x"]))
        first.set()
    assert ended == [(1, 3), (0, 2)]


def test_abatch_as_completed_yields_results_in_completion_order() -> None:
    async def collect() -> list[Any]:
        first = asyncio.Event()

        async def last(state: State) -> State:
            if state["x"] == 1:
                await first.wait()
            return add_one(state)

        ended = []
        async for index, result in graph_of(last).abatch_as_completed(INPUTS[:2]):
            ended.append((index, result["x"]))
            first.set()
        return ended

    assert asyncio.run(collect()) == [(1, 3), (0, 2)]


def refuse_two(state: State) -> State:
    if state["x"] == 2:
        raise ValueError("two")
    return add_one(state)


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_graph_batch_raises_input_failure_or_returns_it_with_return_exceptions(way: str) -> None:
    graph = graph_of(refuse_two)

    def run(**how: Any) -> list[Any]:
        if way == "batch":
            return graph.batch(INPUTS, **how)
        return asyncio.run(graph.abatch(INPUTS, **how))

    with pytest.raises(ValueError, match="two"):
        run()
    results = run(return_exceptions=True)
    assert isinstance(results[1], ValueError)
    assert get_x(results[::2]) == [2, 4]


def test_abatch_with_failing_input_cancels_its_other_running_inputs() -> None:
    async def run() -> list[str]:
        stopped, waiting = [], asyncio.Event()

        async def node(state: State) -> State:
            if state["x"] == 2:
                await waiting.wait()
                raise ValueError("two")
            try:
                waiting.set()
                await asyncio.Event().wait()
            finally:
                stopped.append("stopped")
            return state

        with pytest.raises(ValueError, match="two"):
            await graph_of(node).abatch(INPUTS[:2])
        return stopped

    assert asyncio.run(run()) == ["stopped"]


def test_graph_batch_uses_one_config_per_input_and_rejects_wrong_number_of_configs() -> None:
    graph = graph_of(add_one, InMemorySaver())
    configs = [{"configurable": {"thread_id": str(n)}} for n in range(3)]
    graph.batch(INPUTS, configs)
    assert [graph.get_state(config).values["x"] for config in configs] == [2, 3, 4]
    with pytest.raises(ValueError, match="a list of 3, one per input; got 1"):
        graph.batch(INPUTS, configs[:1])
    assert graph.batch([]) == []
    assert asyncio.run(graph.abatch([])) == []


def test_graph_batch_called_inside_a_node_runs_inputs_sequentially_in_one_os_thread() -> None:
    threads = set()

    def note(state: State) -> State:
        threads.add(threading.get_ident())
        return add_one(state)

    inner = graph_of(note)
    outer = graph_of(lambda state: {"log": get_x(inner.batch(INPUTS))}, InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert outer.invoke({"x": 1}, config)["log"] == [2, 3, 4]
    assert len(threads) == 1


def test_graph_batch_calls_saver_method_leave_thread_on_each_os_thread_of_its_pool() -> None:
    left: list[int] = []

    class Saver(InMemorySaver):
        leave_thread = staticmethod(lambda: left.append(threading.get_ident()))

    graph = graph_of(add_one, Saver())
    configs = [{"configurable": {"thread_id": str(n)}} for n in range(3)]
    graph.batch(INPUTS, configs)
    assert len(left) == 3
    assert threading.get_ident() not in left
    graph.batch(INPUTS[:1], configs[:1])
    assert len(left) == 3


# Variants.


def test_bound_graph_passes_bound_context_to_each_call_unless_overridden() -> None:
    seen = []

    def look(state: State, runtime: Any) -> State:
        seen.append(runtime.context)
        return {}

    bound = graph_of(look).bind(context="a").with_config(tags=["t"])
    bound.invoke({"x": 1})
    bound.invoke({"x": 1}, context="b")
    asyncio.run(bound.ainvoke({"x": 1}))
    list(bound.stream({"x": 1}))
    bound.batch(INPUTS[:2])
    assert seen == ["a", "b", "a", "a", "a", "a"]
    assert bound.get_graph().nodes.keys() == {"__start__", "node", "__end__"}
    with pytest.raises(AttributeError):
        _ = bound.nonsense


def test_mapped_graph_runs_once_per_item_of_its_input_list() -> None:
    mapped = graph_of(add_one).map().with_config(tags=["t"])
    assert get_x(mapped.invoke(INPUTS)) == [2, 3, 4]
    assert get_x(asyncio.run(mapped.ainvoke(INPUTS))) == [2, 3, 4]
    assert [get_x(chunk) for chunk in mapped.stream(INPUTS)] == [[2, 3, 4]]


def test_graph_with_config_uses_bound_thread_id_in_invoke_and_get_state() -> None:
    graph = graph_of(add_one, InMemorySaver())
    bound = graph.with_config({"configurable": {"thread_id": "bound"}}, recursion_limit=2)
    assert bound.invoke({"x": 1})["x"] == 2
    assert bound.get_state(None).values["x"] == 2
    assert graph.get_state({"configurable": {"thread_id": "bound"}}).values["x"] == 2
    with pytest.raises(ValueError, match="requires a thread id in the config"):
        graph.invoke({"x": 1})


def test_merge_configs_joins_tags_and_callbacks_and_merges_metadata_by_key() -> None:
    first = {"tags": ["a"], "metadata": {"m": 1, "n": 1}, "callbacks": [1], "run_name": "one"}
    last = {"tags": ["b", "a"], "metadata": {"n": 2}, "callbacks": [1, 2], "run_name": None}
    assert merge_configs(first, None, last, {"configurable": {"a": 1}}) == {
        "tags": ["a", "b"],
        "metadata": {"m": 1, "n": 2},
        "callbacks": [1, 2],
        "run_name": "one",
        "configurable": {"a": 1},
    }


def test_graph_copy_has_given_attributes_and_rejects_changed_nodes() -> None:
    graph = graph_of(add_one)
    twin = graph.copy({"name": "twin", "interrupt_before_nodes": "*", "checkpointer": None})
    assert (twin.name, twin.interrupt_before_nodes, graph.name) == ("twin", "*", "LangGraph")
    assert graph.copy().invoke({"x": 1})["x"] == 2
    with pytest.raises(ValueError, match="can't change nodes"):
        graph.copy({"nodes": {}})


# What needs langchain.

NEEDS: dict[str, Callable[[Any], Any]] = {
    "|": lambda graph: graph | add_one,
    "| before it": lambda graph: add_one | graph,
    "pipe()": lambda graph: graph.pipe(add_one),
    "with_retry()": lambda graph: graph.with_retry(),
    "with_fallbacks()": lambda graph: graph.with_fallbacks([]),
    "astream_events()": lambda graph: graph.astream_events({}),
}


@pytest.mark.parametrize("what", NEEDS)
def test_langchain_operator_without_langchain_core_raises_import_error(what: str) -> None:
    with pytest.raises(
        ImportError, match="on a graph requires langchain-core, which isn't installed"
    ):
        NEEDS[what](graph_of(add_one))


def test_graph_without_context_schema_returns_no_context_jsonschema() -> None:
    graph = graph_of(add_one)
    assert graph.get_context_jsonschema() is None
    assert graph.config_schema().model_json_schema()["properties"] == {}
    with pytest.raises(ValueError, match="Invalid context schema type"):
        graph.copy({"context_schema": int}).get_context_jsonschema()
