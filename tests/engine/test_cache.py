"""Cached results: reused for the same input, except after interrupts and failures."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from hitl_django import START, StateGraph, interrupt
from hitl_django.engine.loop import node_cache as caching
from hitl_django.engine.loop.node_cache import BaseCache, InMemoryCache
from hitl_django.engine.types import CachePolicy
from tests.clock import module_time

from .graphs import CONFIG, State, log_of, saved, says

SAME = CachePolicy(key_func=lambda state: "same")
KEY = (("ns", "f", "a"), "key")
OTHER = (("ns", "f", "b"), "key")


class Counter:
    """Node that counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, state: State) -> dict[str, Any]:
        self.count += 1
        return {"log": [f"call {self.count}"]}


def one(node: Any, policy: CachePolicy | None = SAME, **policies: Any) -> StateGraph:
    graph = StateGraph(State).add_node("a", node, cache_policy=policy, **policies)
    return graph.add_edge(START, "a")


# The cache.


def test_mutating_value_after_cache_set_or_get_does_not_change_cached_value() -> None:
    cache = InMemoryCache()
    value = [("log", ["one"])]
    cache.set({KEY: (value, None)})
    value[0][1].append("two")
    cache.get([KEY])[KEY][0][1].append("three")
    assert cache.get([KEY, OTHER]) == {KEY: [("log", ["one"])]}


def test_memory_cache_value_expires_after_its_ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(caching, "time", module_time(monotonic=lambda: now[0]))
    cache = InMemoryCache()
    cache.set({KEY: (1, 60), OTHER: (2, None)})
    now[0] += 59.9
    assert cache.get([KEY, OTHER]) == {KEY: 1, OTHER: 2}
    now[0] += 0.1
    assert cache.get([KEY, OTHER]) == {OTHER: 2}


def test_cache_clear_with_namespace_removes_only_entries_of_that_namespace() -> None:
    cache = InMemoryCache()
    cache.set({KEY: (1, None), OTHER: (2, None)})
    cache.clear([KEY[0]])
    assert cache.get([KEY, OTHER]) == {OTHER: 2}
    cache.clear()
    assert cache.get([KEY, OTHER]) == {}


def test_memory_cache_used_by_four_os_threads_raises_no_error() -> None:
    cache = InMemoryCache()
    keys = [(("ns", str(n % 7)), str(n)) for n in range(200)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for key in keys:
                cache.set({key: (key[1], 0 if key[1].endswith("3") else None)})
                cache.get(keys)
                cache.clear([key[0]])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Keys.


@pytest.mark.process
def test_cache_key_is_identical_in_processes_with_different_hash_seeds() -> None:
    said = (
        "from hitl_django.engine.loop.node_cache import make_cache_key\n"
        "from hitl_django.engine.task.nodes import Node\n"
        "from hitl_django.engine.task.task import Task\n"
        "from hitl_django.engine.types import CachePolicy\n"
        "node = Node(None, (), (), cache=CachePolicy())\n"
        "value = {'set': {'a', 'b', 'c', 'd'}, 'n': [1, 2.5, None, ('t',)]}\n"
        "print(make_cache_key(Task('a', node, ('p', 'a'), (), value, None))[1])"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", said],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 32


@pytest.mark.parametrize(
    ("one_value", "other"), [(1, True), (1, 1.0), (1, "1"), ([1], (1,)), (1, Decimal(1))]
)
def test_equal_inputs_of_different_types_have_different_cache_keys(
    one_value: Any, other: Any
) -> None:
    node = Counter()
    graph = one(lambda state: node(state), CachePolicy()).compile(cache=InMemoryCache())
    for value in (one_value, other, one_value, other):
        graph.invoke({"x": value})
    assert node.count == 2


def test_two_nodes_with_the_same_function_do_not_share_cached_results() -> None:
    node = Counter()

    def function(state: State) -> dict[str, Any]:
        return node(state)

    graph = one(function).add_node("b", function, cache_policy=SAME).add_edge("a", "b")
    assert graph.compile(cache=InMemoryCache()).invoke({})["log"] == ["call 1", "call 2"]


def test_cached_result_is_not_used_by_another_function_in_node_of_same_name() -> None:
    cache = InMemoryCache()

    def first(state: State) -> dict[str, Any]:
        return {"log": ["first"]}

    def second(state: State) -> dict[str, Any]:
        return {"log": ["second"]}

    ends = [one(node).compile(cache=cache).invoke({})["log"] for node in (first, second, first)]
    assert ends == [["first"], ["second"], ["first"]]


def test_cache_key_function_returning_int_raises_type_error() -> None:
    graph = saved(one(says("a"), CachePolicy(key_func=lambda state: 5)), cache=InMemoryCache())  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="cache key of node 'a' must be str or bytes, not int"):
        graph.invoke({"x": 1}, CONFIG)


@pytest.mark.parametrize("way", ["advance", "ainvoke"])
def test_exception_in_cache_key_function_fails_task_until_function_is_fixed(way: str) -> None:
    broken = [True]

    def key(state: State) -> str:
        if broken:
            raise ZeroDivisionError("no key")
        return "key"

    graph = saved(one(says("a"), CachePolicy(key_func=key)), cache=InMemoryCache())
    if way == "advance":
        graph.submit({"x": 1}, CONFIG)
        outcome = graph.advance(CONFIG)
        assert (outcome.status, str(outcome.error)) == ("failed", "no key")
    else:
        with pytest.raises(ZeroDivisionError, match="no key"):
            asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    broken.clear()
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["a"]


def test_node_input_without_default_cache_key_raises_type_error_naming_key_func() -> None:
    graph = one(says("a"), CachePolicy()).compile(cache=InMemoryCache())
    with pytest.raises(TypeError, match="key_func") as raised:
        graph.invoke({"x": threading.Lock()})  # type: ignore[typeddict-item]
    assert "'a'" in str(raised.value)


# Cached results.


def test_cached_node_result_is_stored_in_thread_history() -> None:
    node = Counter()
    graph = saved(one(node).add_node("b", says("b")).add_edge("a", "b"), cache=InMemoryCache())
    for thread in ("one", "two"):
        config = {"configurable": {"thread_id": thread}}
        assert graph.invoke({"x": 1}, config)["log"] == ["call 1", "b"]
        records = [record.tasks for record in graph.get_state_history(config)]
        assert [task.result for tasks in records for task in tasks] == [
            {"log": ["b"]}, {"log": ["call 1"]}, {"x": 1}
        ]  # fmt: skip
    assert node.count == 1


def test_node_result_that_depends_on_response_is_not_returned_from_cache() -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt("q")]} if state["x"] else {"log": ["nobody was asked"]}

    graph = saved(one(node), cache=InMemoryCache())
    graph.submit({"x": 1}, CONFIG)
    assert graph.advance(CONFIG).status == "interrupted"
    other = {"configurable": {"thread_id": "other"}}
    assert graph.invoke({"x": 0}, other)["log"] == ["nobody was asked"]
    # The key is kept now; whoever was asked a question is still asked for the answer.
    assert graph.advance(CONFIG).status == "interrupted"


def test_node_result_that_cannot_be_cached_is_logged_and_run_finishes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = threading.Lock()
    graph = one(lambda state: {"log": [lock]}).compile(cache=InMemoryCache())
    with caplog.at_level(logging.WARNING, "hitl_django"):
        assert graph.invoke({"x": 1})["log"] == [lock]
    assert "could not cache the result of node a: Can't store" in caplog.text


def test_step_with_cached_and_uncached_nodes_runs_only_the_uncached_nodes() -> None:
    nodes = {name: Counter() for name in "abc"}
    graph = StateGraph(State)
    for name, node in nodes.items():
        policy = CachePolicy(key_func=lambda state: "same") if name != "b" else None
        graph.add_node(name, node, cache_policy=policy).add_edge(START, name)
    compiled = graph.compile(cache=InMemoryCache())
    for run in (1, 2):
        assert compiled.invoke({})["log"] == ["call 1", f"call {run}", "call 1"]


def test_error_handler_result_of_failed_node_is_not_cached() -> None:
    def bad(state: State) -> None:
        raise ValueError("no")

    handler = Counter()
    graph = one(bad, error_handler=handler).set_node_defaults(cache_policy=SAME)
    compiled = graph.compile(cache=InMemoryCache())
    assert [compiled.invoke({})["log"] for _ in range(2)] == [["call 1"], ["call 2"]]


# Caches of graphs.


class Recording(BaseCache):
    """Cache that stores its calls, separately for sync and async."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.kept: dict[Any, Any] = {}

    def get(self, keys: Sequence[Any]) -> dict[Any, Any]:
        self.calls.append("get")
        return {key: self.kept[key] for key in keys if key in self.kept}

    def set(self, pairs: Mapping[Any, tuple[Any, int | None]]) -> None:
        self.calls.append("set")
        self.kept.update({key: value for key, (value, _) in pairs.items()})

    def clear(self, namespaces: Sequence[Any] | None = None) -> None:
        self.calls.append(f"clear {[space[-1] for space in namespaces or ()]}")

    async def aget(self, keys: Sequence[Any]) -> dict[Any, Any]:
        self.calls.append("a")
        return self.get(keys)


def test_async_run_calls_async_methods_of_the_cache() -> None:
    cache = Recording()
    graph = one(Counter()).compile(cache=cache)
    assert asyncio.run(graph.ainvoke({}))["log"] == ["call 1"]
    assert asyncio.run(graph.ainvoke({}))["log"] == ["call 1"]
    assert cache.calls == ["a", "get", "set", "a", "get"]


def test_node_without_cache_policy_does_not_read_the_cache() -> None:
    cache = Recording()
    one(Counter(), None).compile(cache=cache).invoke({})
    assert cache.calls == []


def test_clear_cache_with_names_clears_these_nodes_and_without_names_clears_all_nodes() -> None:
    cache = Recording()
    graph = one(says("a")).add_node("b", says("b")).compile(cache=cache)
    graph.clear_cache(["b", "unknown"])
    asyncio.run(graph.aclear_cache(["a"]))
    graph.clear_cache()
    assert cache.calls == ["clear ['b']", "clear ['a']", "clear ['__start__', 'a', 'b']"]


def test_clear_cache_of_graph_without_cache_raises_value_error() -> None:
    graph = one(says("a")).compile()
    said = "No cache is set for this graph. Cannot clear cache."
    with pytest.raises(ValueError) as raised:
        graph.clear_cache()
    assert str(raised.value) == said
    with pytest.raises(ValueError) as raised:
        asyncio.run(graph.aclear_cache())
    assert str(raised.value) == said
