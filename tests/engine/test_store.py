"""Stores: items in namespaces, filters, and copies of stored and returned items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitl_django.engine.errors import InvalidNamespaceError
from hitl_django.engine.store import (
    BaseStore,
    GetOp,
    InMemoryStore,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from hitl_django.engine.task.node_api import get_store

from .graphs import CONFIG, line, saved


def filled() -> InMemoryStore:
    store = InMemoryStore()
    for n in range(12):
        value = {"n": n, "odd": bool(n % 2), "deep": {"n": n}}
        store.put(("numbers", str(n % 3)), f"k{n}", value)
    return store


def keys(found: Iterable[Item]) -> list[str]:
    return [item.key for item in found]


def test_memory_store_item_has_value_key_namespace_and_timestamps() -> None:
    store = InMemoryStore()
    before = datetime.now(UTC)
    store.put(("users", "ann"), "name", {"first": "Ann"})
    item = store.get(("users", "ann"), "name")
    assert item is not None
    assert (item.value, item.key, item.namespace) == ({"first": "Ann"}, "name", ("users", "ann"))
    assert before <= item.created_at == item.updated_at <= datetime.now(UTC)
    assert item.dict() == {
        "namespace": ["users", "ann"],
        "key": "name",
        "value": {"first": "Ann"},
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }
    assert store.get(("users", "ann"), "age") is None
    assert Item(**item.dict()) == item


def test_memory_store_put_replaces_item_and_delete_removes_it() -> None:
    store = InMemoryStore()
    store.put(("a",), "k", {"v": 1})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"v": 2})
    second = store.get(("a",), "k")
    assert first is not None
    assert second is not None
    assert (second.value, second.created_at) == ({"v": 2}, first.created_at)
    assert second.updated_at >= first.updated_at
    store.delete(("a",), "k")
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.list_namespaces() == []


def test_mutating_dict_after_store_put_or_get_does_not_change_stored_value() -> None:
    store, value = InMemoryStore(), {"list": [1]}
    store.put(("a",), "k", value)
    value["list"].append(2)
    read = store.get(("a",), "k")
    assert read is not None
    read.value["list"].append(3)
    again = store.get(("a",), "k")
    assert again is not None
    assert again.value == {"list": [1]}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": 3}, ["k3"]),
        ({"n": {"$eq": 3}}, ["k3"]),
        ({"n": {"$gt": 9}}, ["k10", "k11"]),
        ({"n": {"$gte": 8, "$lt": 10}}, ["k9", "k8"]),
        ({"n": {"$lte": 1}}, ["k0", "k1"]),
        ({"n": {"$ne": 0}, "odd": False}, ["k6", "k4", "k10", "k2", "k8"]),
        ({"deep": {"n": 7}}, ["k7"]),
        ({"deep": {"n": {"$gt": 10}}}, ["k11"]),
        ({"deep": {"other": 7}}, []),
        ({"n": {"$gt": "a"}}, []),
        ({"none": 1}, []),
    ],
)
def test_store_search_filter_compares_value_fields_with_operators(
    wanted: dict[str, Any], found: list[str]
) -> None:
    assert keys(filled().search(("numbers",), filter=wanted)) == found


def test_store_search_includes_child_namespaces_and_applies_limit_and_offset() -> None:
    store = filled()
    assert keys(store.search(("numbers", "1"))) == ["k1", "k4", "k7", "k10"]
    assert keys(store.search(("num",))) == []
    assert len(store.search(())) == 10
    first, rest = store.search((), limit=7), store.search((), limit=7, offset=7)
    assert len(first) == 7
    assert sorted(keys(first) + keys(rest)) == sorted(f"k{n}" for n in range(12))
    assert isinstance(first[0], SearchItem)
    assert first[0].score is None
    assert first[0].dict()["score"] is None


def test_store_search_with_unknown_filter_operator_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"Unsupported operator: \$near"):
        filled().search(("numbers",), filter={"n": {"$near": 1}})


def test_list_namespaces_filters_by_prefix_suffix_and_max_depth() -> None:
    store = InMemoryStore()
    for namespace in [("a", "b", "c"), ("a", "b", "d"), ("x", "b", "d"), ("a",)]:
        store.put(namespace, "k", {})
    assert store.list_namespaces() == [("a",), ("a", "b", "c"), ("a", "b", "d"), ("x", "b", "d")]
    assert store.list_namespaces(prefix=("a", "b")) == [("a", "b", "c"), ("a", "b", "d")]
    assert store.list_namespaces(prefix=("*", "b"), suffix=("d",)) == [
        ("a", "b", "d"), ("x", "b", "d"),
    ]  # fmt: skip
    assert store.list_namespaces(max_depth=1) == [("a",), ("x",)]
    assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "c")]


@pytest.mark.parametrize(
    "namespace", [(), ("",), ("a.b",), ("langgraph", "x"), (1,), "abc", None], ids=repr
)
def test_store_put_with_invalid_namespace_raises_invalid_namespace_error(namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        InMemoryStore().put(namespace, "k", {})


def test_store_put_with_value_other_than_dict_raises_type_error() -> None:
    with pytest.raises(TypeError, match="Store values must be dicts, not str"):
        InMemoryStore().put(("a",), "k", "text")  # type: ignore[arg-type]


def test_store_batch_reads_before_its_writes_and_stores_last_value_of_a_key() -> None:
    store = InMemoryStore()
    store.put(("a",), "k", {"v": 0})
    results = store.batch(
        [
            PutOp(("a",), "k", {"v": 1}),
            GetOp(("a",), "k"),
            SearchOp(("a",), {"v": 0}),
            ListNamespacesOp((MatchCondition("prefix", ("a",)),)),
            PutOp(("a",), "k", {"v": 2}),
        ]
    )
    assert [type(result).__name__ for result in results] == [
        "NoneType", "Item", "list", "list", "NoneType",
    ]  # fmt: skip
    assert results[1].value == {"v": 0}  # type: ignore[union-attr]
    assert store.get(("a",), "k").value == {"v": 2}  # type: ignore[union-attr]


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


def test_store_item_expires_after_its_ttl_and_each_read_restarts_the_ttl() -> None:
    clock = Clock()
    store = InMemoryStore(clock=clock)
    store.put(("a",), "k", {}, ttl=10)
    clock.pass_minutes(9)
    assert store.get(("a",), "k") is not None
    clock.pass_minutes(9)
    assert keys(store.search(("a",), refresh_ttl=False)) == ["k"]
    clock.pass_minutes(1)
    assert store.get(("a",), "k") is None
    assert store.list_namespaces() == []


class Plain(BaseStore):
    """Store with only the batch method."""

    def __init__(self) -> None:
        self.behind = InMemoryStore()

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        return self.behind.batch(ops)


@pytest.mark.parametrize("make", [InMemoryStore, Plain])
def test_async_store_methods_return_same_results_as_sync_methods(
    make: Callable[[], BaseStore],
) -> None:
    async def main() -> None:
        store = make()
        await store.aput(("a",), "k", {"v": 1})
        found = await store.aget(("a",), "k")
        assert found is not None
        assert found.value == {"v": 1}
        assert keys(await store.asearch(("a",), filter={"v": 1})) == ["k"]
        assert await store.alist_namespaces(prefix=("a",)) == [("a",)]
        await store.adelete(("a",), "k")
        assert await store.aget(("a",), "k") is None

    asyncio.run(main())


def test_put_with_ttl_in_store_without_ttl_support_raises_not_implemented_error() -> None:
    with pytest.raises(NotImplementedError, match="TTL is not supported by Plain"):
        Plain().put(("a",), "k", {}, ttl=1)


def test_nodes_of_graph_and_subgraph_receive_the_same_store() -> None:
    def inner(state: Any, store: BaseStore) -> dict[str, Any]:
        store.put(("a",), "inner", {"same": store is get_store()})
        return {"log": ["inner"]}

    def outer(state: Any, *, runtime: Any) -> dict[str, Any]:
        found = runtime.store.search(("a",))
        return {"log": [item.value for item in found]}

    child = line(inner=inner).compile()
    graph = saved(line(child=child, outer=outer), store=InMemoryStore())
    assert graph.invoke({"x": 1}, CONFIG)["log"][-1] == {"same": True}
