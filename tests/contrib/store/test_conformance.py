"""Common behaviour of all stores, including LangGraph's where it applies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F

from hitl_django.contrib.langgraph import LangGraphStore
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.store.models import StoreItem
from hitl_django.engine.errors import InvalidNamespaceError
from hitl_django.engine.store import InMemoryStore
from tests.compat.engines import LANGGRAPH, OURS

from .embedders import AsyncCounter, Counter, acount_letters, count_letters, index_of

ops = OURS.store.base
OPERATIONS = {InMemoryStore: ops, DjangoStore: ops}

BRIDGED = pytest.param(LangGraphStore, marks=pytest.mark.django_db, id="bridged")
DJANGO = pytest.param(DjangoStore, marks=pytest.mark.django_db, id="django")
MEMORY = pytest.param(InMemoryStore, id="memory")
THEIRS = pytest.param(LANGGRAPH.store.memory.InMemoryStore, id="langgraph")

each = pytest.mark.parametrize("make", [MEMORY, DJANGO, BRIDGED, THEIRS])
ours = pytest.mark.parametrize("make", [MEMORY, DJANGO, BRIDGED])

Make = Callable[..., Any]


def operations(make: Make) -> Any:
    return OPERATIONS.get(make, LANGGRAPH.store.base)


def keys(found: Iterable[Any]) -> list[str]:
    return [item.key for item in found]


def scored(found: Iterable[Any]) -> dict[str, Any]:
    return {item.key: item.score for item in found}


def filled(make: Make) -> Any:
    store = make()
    for n in range(12):
        value = {"n": n, "odd": bool(n % 2), "name": f"no {n}", "deep": {"n": n, "list": [n, "x"]}}
        store.put(("numbers",), f"k{n}", value)
    return store


@each
def test_store_item_is_put_replaced_and_deleted(make: Make) -> None:
    store = make()
    assert store.get(("a", "b"), "k") is None
    before = datetime.now(UTC) - timedelta(seconds=1)
    store.put(("a", "b"), "k", {"v": 1})
    item = store.get(("a", "b"), "k")
    assert (item.namespace, item.key, item.value) == (("a", "b"), "k", {"v": 1})
    assert before <= item.created_at <= item.updated_at
    store.put(("a", "b"), "k", {"v": 2})
    assert store.get(("a", "b"), "k").value == {"v": 2}
    store.delete(("a", "b"), "k")
    store.delete(("a", "b"), "k")
    assert store.get(("a", "b"), "k") is None


@each
def test_store_put_of_none_deletes_the_item(make: Make) -> None:
    store = make()
    store.put(("a",), "k", {"v": 1})
    store.put(("a",), "k", None)
    assert store.get(("a",), "k") is None


@ours
def test_replaced_store_item_preserves_its_creation_time(make: Make) -> None:
    store = make()
    store.put(("a",), "k", {"v": 1})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"v": 2})
    second = store.get(("a",), "k")
    assert second.created_at == first.created_at
    assert second.updated_at >= first.updated_at


@each
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": 3}, ["k3"]),
        ({"n": 3.0}, ["k3"]),
        ({"n": "3"}, []),
        ({"name": "no 3"}, ["k3"]),
        ({"name": "NO 3"}, []),
        ({"name": {"$eq": "no 3"}}, ["k3"]),
        ({"n": {"$gt": 9}}, ["k10", "k11"]),
        ({"n": {"$gt": "9"}}, ["k10", "k11"]),
        ({"n": {"$gte": 8, "$lt": 10}}, ["k8", "k9"]),
        ({"n": {"$lte": 1}}, ["k0", "k1"]),
        ({"n": {"$ne": 0}, "odd": False}, ["k2", "k4", "k6", "k8", "k10"]),
        ({"odd": 1, "n": {"$lt": 4}}, ["k1", "k3"]),
        ({"deep": {"n": 7}}, ["k7"]),
        ({"deep": {"n": {"$gt": 10}}}, ["k11"]),
        ({"deep": {"list": [5, "x"]}}, ["k5"]),
        ({"deep": {"list": ({"$gt": 10}, "x")}}, ["k11"]),
        ({"deep": {"list": [5]}}, []),
        ({"deep": {"other": 7}}, []),
        ({"none": 1}, []),
        ({"none": None, "n": 2}, ["k2"]),
        ({"name": {"n": 1}}, []),
        ({}, [f"k{n}" for n in range(10)]),
    ],
    ids=repr,
)
def test_store_search_filter_compares_values_with_type_and_operator(
    make: Make, wanted: dict[str, Any], found: list[str]
) -> None:
    assert keys(filled(make).search(("numbers",), filter=wanted)) == found


@ours
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"name": {"$gt": "no 8"}}, ["k9"]),
        ({"none": {"$gt": 1}}, []),
        ({"deep": {"$lt": 1}}, []),
    ],
    ids=repr,
)
def test_store_ordering_filter_compares_text_and_skips_values_of_other_types(
    make: Make, wanted: dict[str, Any], found: list[str]
) -> None:
    assert keys(filled(make).search(("numbers",), filter=wanted)) == found


@each
@pytest.mark.parametrize(
    "text", ['"', "\\", "%", "_", "é", "’", "a\nb", "}", '{"a":"b"}', "", "\x01", "🙂"]
)
def test_store_search_filter_matches_special_characters_literally(make: Make, text: str) -> None:
    store = make()
    store.put(("a",), "1", {text or "k": text, "in": {"it": text}})
    store.put(("a",), "2", {text or "k": "other", "in": {"it": "other"}})
    assert keys(store.search(("a",), filter={text or "k": text})) == ["1"]
    assert keys(store.search(("a",), filter={"in": {"it": {"$eq": text}}})) == ["1"]


@each
def test_store_search_with_unknown_filter_operator_raises_value_error(make: Make) -> None:
    with pytest.raises(ValueError, match=r"Unsupported operator: \$near"):
        filled(make).search(("numbers",), filter={"n": {"$near": 1}})


@each
def test_store_search_applies_limit_and_offset(make: Make) -> None:
    store = filled(make)
    everything = [f"k{n}" for n in range(12)]
    assert keys(store.search(("numbers",), limit=100)) == everything
    assert keys(store.search(("numbers",))) == everything[:10]
    assert keys(store.search(("numbers",), limit=5, offset=10)) == everything[10:]
    assert keys(store.search(("numbers",), limit=2, offset=1, filter={"odd": True})) == ["k3", "k5"]
    assert keys(store.search(("numbers",), limit=3, offset=-3)) == []
    assert keys(store.search(("numbers",), limit=0)) == []
    assert keys(store.search(("numbers",), limit=-9)) == ["k0", "k1", "k2"]


@each
def test_store_search_matches_whole_namespace_labels_and_includes_nested_namespaces(
    make: Make,
) -> None:
    store = make()
    for namespace in [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a"), ("a\x01",)]:
        store.put(namespace, "/".join(namespace), {})
    assert sorted(keys(store.search(("a",)))) == ["a", "a/b", "a/b/c"]
    assert sorted(keys(store.search(("a", "b")))) == ["a/b", "a/b/c"]
    assert keys(store.search(("b",))) == ["b/a"]
    assert keys(store.search(("A",))) == []
    assert len(store.search(())) == 6
    assert store.search(("ab",))[0].score is None


@each
def test_store_namespaces_are_listed_by_prefix_suffix_and_depth(make: Make) -> None:
    store = make()
    for namespace in [("a", "b", "c"), ("a", "b", "d"), ("x", "b", "d"), ("a",), ("é",)]:
        store.put(namespace, "k", {})
    listed = store.list_namespaces
    assert listed() == [("a",), ("a", "b", "c"), ("a", "b", "d"), ("x", "b", "d"), ("é",)]
    assert listed(prefix=("a", "b")) == [("a", "b", "c"), ("a", "b", "d")]
    assert listed(prefix=("*", "b"), suffix=("d",)) == [("a", "b", "d"), ("x", "b", "d")]
    assert listed(prefix=("a", "*", "c")) == [("a", "b", "c")]
    assert listed(suffix=("*", "c")) == [("a", "b", "c")]
    assert listed(max_depth=1) == [("a",), ("x",), ("é",)]
    assert listed(max_depth=2, prefix=("a",)) == [("a",), ("a", "b")]
    assert listed(limit=1, offset=1) == [("a", "b", "c")]
    assert listed(prefix=("nobody",)) == []
    op = operations(make)
    assert store.batch([op.ListNamespacesOp()]) == [listed()]


@each
def test_store_list_namespaces_with_unknown_match_type_raises_value_error(make: Make) -> None:
    op = operations(make)
    store = filled(make)
    with pytest.raises(ValueError, match="Unsupported match type"):
        store.batch([op.ListNamespacesOp((op.MatchCondition("middle", ("numbers",)),))])


@each
def test_store_batch_with_unknown_operation_raises_value_error(make: Make) -> None:
    with pytest.raises(ValueError, match="Unknown operation type"):
        make().batch(["put"])


@each
@pytest.mark.parametrize(
    "namespace", [(), ("",), ("a.b",), ("a\0",), ("langgraph", "x"), (1,)], ids=repr
)
def test_store_call_with_invalid_namespace_raises_invalid_namespace_error(
    make: Make, namespace: Any
) -> None:
    error = (
        LANGGRAPH.store.base.InvalidNamespaceError
        if make not in OPERATIONS
        else (InvalidNamespaceError)
    )
    store = make()
    with pytest.raises(error):
        store.put(namespace, "k", {})
    if namespace and namespace[0] != "langgraph":
        for call in (
            lambda: store.get(namespace, "k"),
            lambda: store.delete(namespace, "k"),
            lambda: store.search(namespace),
            lambda: store.list_namespaces(prefix=namespace),
            lambda: store.list_namespaces(suffix=namespace),
        ):
            with pytest.raises(error):
                call()


@each
def test_store_batch_reads_before_writing_and_stores_the_last_value_per_key(make: Make) -> None:
    op, store = operations(make), make()
    store.put(("a",), "k", {"v": 0})
    store.put(("a",), "gone", {"v": 0})
    results = store.batch(
        [
            op.PutOp(("a",), "k", {"v": 1}),
            op.GetOp(("a",), "k"),
            op.PutOp(("a",), "gone", None),
            op.SearchOp(("a",), {"v": 0}),
            op.PutOp(("a",), "new", None),
            op.ListNamespacesOp((op.MatchCondition("prefix", ("b",)),)),
            op.PutOp(("a",), "new", {"v": 5}),
            op.GetOp(("b",), "k"),
            op.PutOp(("a",), "k", {"v": 2}),
            op.PutOp(("b",), "k", {"v": 3}),
            op.PutOp(("b",), "k", None),
        ]
    )
    assert results[1].value == {"v": 0}
    assert keys(results[3]) == ["k", "gone"]
    assert [results[at] for at in (0, 2, 4, 5, 6, 7, 8, 9, 10)] == [None] * 3 + [[]] + [None] * 5
    assert {item.key: item.value["v"] for item in store.search(())} == {"k": 2, "new": 5}


@each
def test_async_store_methods_return_results_of_sync_methods(make: Make) -> None:
    async def main() -> None:
        store = make(index=index_of("v"))
        await store.aput(("a",), "k", {"v": "a"})
        assert (await store.aget(("a",), "k")).value == {"v": "a"}
        assert keys(await store.asearch(("a",), filter={"v": "a"})) == ["k"]
        assert (await store.asearch(("a",), query="a"))[0].score == pytest.approx(1.0)
        assert await store.alist_namespaces(prefix=("a",)) == [("a",)]
        await store.adelete(("a",), "k")
        assert await store.aget(("a",), "k") is None

    async_to_sync(main)()


@each
def test_store_search_with_query_ranks_items_by_embedding_and_filter(make: Make) -> None:
    store = make(index=index_of("text"))
    for key, text in {"a": "aaaa", "b": "bbbb", "ab": "aabb"}.items():
        store.put(("docs",), key, {"text": text})
    store.put(("docs",), "without", {"other": 1})
    store.put(("docs",), "none", {"text": None})
    found = scored(store.search(("docs",), query="aaa"))
    assert [*found] == ["a", "ab", "b", "without", "none"]
    assert found["a"] == pytest.approx(13 / (17 * 10) ** 0.5)
    assert found["b"] == pytest.approx(1 / (17 * 10) ** 0.5)
    assert found["without"] is None
    assert [*scored(store.search(("docs",), query="bbb"))][:3] == ["b", "ab", "a"]
    assert keys(store.search(("docs",), query="bbb", limit=1, offset=1)) == ["ab"]
    assert keys(store.search(("docs",), query="a", filter={"text": {"$ne": "aaaa"}}, limit=1)) == [
        "ab"
    ]
    assert keys(store.search(("docs",), query="")) == ["a", "b", "ab", "without", "none"]
    assert store.search(("nobody",), query="a") == []


@each
@pytest.mark.parametrize(
    ("fields", "near"),
    [
        (["$"], "aaaaa"),
        (["title"], "aaaaaa"),
        (["meta.title"], "bbbbbb"),
        (["parts[*].text"], "cccccc"),
        (["parts[*].text"], "dddddd"),
        (["parts[-1].text"], "dddddd"),
        (["parts[0].text"], "cccccc"),
        (["title", "meta.title"], "bbbbbb"),
        (["{title,meta.title}"], "bbbbbb"),
        (["meta.*"], "bbbbbb"),
    ],
)
def test_store_index_embeds_only_its_configured_fields(
    make: Make, fields: list[str], near: str
) -> None:
    value = {
        "title": "aaaaaa",
        "meta": {"title": "bbbbbb"},
        "parts": [{"text": "cccccc"}, {"text": "dddddd"}],
    }
    store = make(index=index_of(*fields))
    store.put(("a",), "k", value)
    [score] = scored(store.search(("a",), query=near)).values()
    assert score == pytest.approx(1.0) if fields != ["$"] else 0 < score < 1

    other = make(index=index_of("nothing"))
    other.put(("b",), "k", value, index=[field for field in fields if field != "$"] or ["title"])
    [score] = scored(other.search(("b",), query=near if fields != ["$"] else "aaaaaa")).values()
    assert score == pytest.approx(1.0)


@each
def test_store_item_put_without_index_is_found_without_score_after_ranked_items(make: Make) -> None:
    store = make(index=index_of())
    store.put(("a",), "plain", {"text": "aaa"}, index=False)
    store.put(("a",), "indexed", {"text": "b"})
    found = scored(store.search(("a",), query="aaa"))
    assert [*found] == ["indexed", "plain"]
    assert found["plain"] is None


@each
def test_store_without_index_returns_query_results_without_scores(make: Make) -> None:
    store = make()
    store.put(("a",), "2", {"text": "b"}, index=["text"])
    store.put(("a",), "1", {"text": "a"})
    assert scored(store.search(("a",), query="a")) == {"2": None, "1": None}
    assert store.embeddings is None


@each
def test_deleted_store_item_is_not_found_by_query(make: Make) -> None:
    store = make(index=index_of())
    store.put(("a",), "k", {"text": "a"})
    store.delete(("a",), "k")
    assert store.search(("a",), query="a") == []


@ours
def test_replaced_store_item_is_ranked_by_its_new_value(make: Make) -> None:
    store = make(index=index_of("tags[*]"))
    store.put(("a",), "k", {"tags": ["aaaa", "bbbb"]})
    store.put(("a",), "k", {"tags": ["cccc"]})
    [score] = scored(store.search(("a",), query="bbbb")).values()
    assert score < 0.1
    store.put(("a",), "k", {"tags": ["bbbb"]}, index=False)
    assert scored(store.search(("a",), query="bbbb")) == {"k": None}


@ours
def test_store_batch_embeds_each_distinct_text_once(make: Make) -> None:
    counter = Counter()
    store = make(index=index_of("text", "title", embed=counter))
    store.batch(
        [
            ops.PutOp(("a",), "1", {"text": "aa", "title": "aa"}),
            ops.PutOp(("a",), "2", {"text": "aa"}),
            ops.PutOp(("a",), "2", {"text": "bb", "title": "aa"}),
        ]
    )
    assert scored(store.search(("a",), query="aa")) == pytest.approx({"1": 1.0, "2": 1.0})
    assert counter.asked == [["aa", "bb"]]  # each event once, and no expired items


@ours
def test_store_ranked_search_pages_contain_each_item_once(make: Make) -> None:
    store = make(index=index_of())
    for n in range(3):
        store.put(("a",), f"ranked{n}", {"text": "a"})
        store.put(("a",), f"plain{n}", {"text": "a"}, index=False)
    pages = [store.search(("a",), query="a", limit=2, offset=at) for at in (0, 2, 4)]
    found = [key for page in pages for key in keys(page)]
    assert found == ["ranked0", "ranked1", "ranked2", "plain0", "plain1", "plain2"]


@ours
def test_store_item_put_with_root_path_is_embedded_as_a_whole(make: Make) -> None:
    store = make(index=index_of("text"))
    store.put(("a",), "k", {"text": "a"}, index=["$"])
    assert store.search(("a",), query="a")[0].score is not None


@each
@pytest.mark.parametrize(
    "embed", [count_letters, Counter(), acount_letters, AsyncCounter()], ids=lambda it: str(it)[:20]
)
def test_store_index_accepts_sync_and_async_embedding_functions_and_objects(
    make: Make, embed: Any
) -> None:
    async def main() -> None:
        store = make(index=index_of("text", embed=embed))
        await store.aput(("a",), "a", {"text": "aaaa"})
        await store.aput(("a",), "b", {"text": "bbbb"})
        assert keys(await store.asearch(("a",), query="bb")) == ["b", "a"]

    async_to_sync(main)()


@each
@pytest.mark.parametrize("embed", [acount_letters, AsyncCounter()], ids=["function", "object"])
def test_store_sync_put_with_async_embeddings_raises_value_error(make: Make, embed: Any) -> None:
    store = make(index=index_of(embed=embed))
    with pytest.raises(ValueError, match="async"):
        store.put(("a",), "k", {"text": "a"})
    assert store.get(("a",), "k") is None


@each
def test_store_index_with_model_name_loads_embeddings_by_langchain(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, named = Counter(), []

    def init_embeddings(name: str) -> Any:
        named.append(name)
        return found

    monkeypatch.setattr("langchain.embeddings.init_embeddings", init_embeddings)
    LANGGRAPH.store.base.embed._get_init_embeddings.cache_clear()
    try:
        assert make(index=index_of(embed="openai:small")).embeddings is found
    finally:
        LANGGRAPH.store.base.embed._get_init_embeddings.cache_clear()
    assert named == ["openai:small"]


@each
def test_store_index_without_embeddings_raises_value_error(make: Make) -> None:
    with pytest.raises(ValueError, match="embed must be provided"):
        make(index={"dims": 3})


@ours
def test_store_index_with_invalid_embeddings_raises_value_error_naming_the_fault(
    make: Make,
) -> None:
    with pytest.raises(ValueError, match="'embed' must be an object with embed_documents"):
        make(index=index_of(embed=5))
    store = make(index=index_of(embed=lambda texts: [[1.0]] * (len(texts) + 1)))
    with pytest.raises(ValueError, match="returned 2 vectors for 1 texts"):
        store.put(("a",), "k", {"text": "a"})
    store = make(index=index_of(embed=lambda texts: [[float("nan")] for _ in texts]))
    with pytest.raises(ValueError, match="non-finite number"):
        store.put(("a",), "k", {"text": "a"})


@ours
def test_store_search_with_embedding_of_other_dimension_raises_value_error(make: Make) -> None:
    length = 2
    store = make(index=index_of(embed=lambda texts: [[1.0] * length for _ in texts]))
    store.put(("a",), "k", {"text": "a"})
    length = 3
    with pytest.raises(ValueError, match="embedding has 3 dimensions, but a stored item has 2"):
        store.search(("a",), query="a")


@ours
def test_store_item_with_zero_embedding_has_score_zero(make: Make) -> None:
    store = make(index=index_of(embed=lambda texts: [[0.0, 0.0] for _ in texts]))
    store.put(("a",), "k", {"text": "a"})
    assert scored(store.search(("a",), query="a")) == {"k": 0.0}


class Time:
    """Clock of a store, which a test moves forward."""

    def __init__(self, make: Make) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.kind = {"clock": lambda: self.now} if make is InMemoryStore else {}

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)
        if not self.kind:
            StoreItem.objects.update(expires_at=F("expires_at") - timedelta(minutes=minutes))


@ours
def test_store_item_expires_after_ttl_unless_read_before(make: Make) -> None:
    time = Time(make)
    store = make(**time.kind)
    store.put(("a",), "read", {"v": 1}, ttl=10)
    store.put(("a",), "found", {"v": 2}, ttl=10)
    store.put(("a",), "left", {"v": 1}, ttl=10)
    store.put(("b",), "stays", {})
    time.pass_minutes(9)
    assert store.get(("a",), "read") is not None
    assert keys(store.search(("a",), filter={"v": 2})) == ["found"]
    assert keys(store.search(("a",), filter={"v": 1}, refresh_ttl=False)) == ["read", "left"]
    assert store.get(("a",), "left", refresh_ttl=False) is not None
    time.pass_minutes(9)
    assert keys(store.search((), refresh_ttl=False)) == ["read", "found", "stays"]
    assert store.get(("a",), "left") is None
    time.pass_minutes(1)
    assert store.search(("a",)) == []
    assert store.list_namespaces() == [("b",)]
    # In memory, expired items are deleted when they would be read.
    assert store.sweep_ttl() == (0 if make is InMemoryStore else 3)
    assert store.sweep_ttl() == 0
    time.pass_minutes(10_000)
    assert store.get(("b",), "stays") is not None


@ours
def test_store_item_put_after_its_expiry_is_listed_as_new(make: Make) -> None:
    time = Time(make)
    store = make(**time.kind)
    store.put(("a",), "old", {}, ttl=1)
    store.put(("a",), "other", {})
    time.pass_minutes(2)
    store.put(("a",), "old", {})
    assert keys(store.search(("a",))) == ["other", "old"]
    time.pass_minutes(2)
    assert store.get(("a",), "old") is not None


@ours
def test_store_default_ttl_applies_to_puts_without_ttl(make: Make) -> None:
    time = Time(make)
    store = make(ttl={"default_ttl": 10, "refresh_on_read": False}, **time.kind)
    store.put(("a",), "default", {})
    store.put(("a",), "longer", {}, ttl=30)
    store.put(("a",), "stays", {}, ttl=None)
    store.put(("a",), "read", {})
    time.pass_minutes(9)
    assert store.get(("a",), "default") is not None
    assert store.get(("a",), "read", refresh_ttl=True) is not None
    time.pass_minutes(2)
    assert keys(store.search(("a",))) == ["longer", "stays", "read"]
    time.pass_minutes(20)
    assert keys(store.search(("a",))) == ["stays"]


@ours
def test_store_ranked_search_refreshes_ttl_of_returned_items_only(make: Make) -> None:
    time = Time(make)
    store = make(index=index_of(), **time.kind)
    store.put(("a",), "near", {"text": "aaaa"}, ttl=10)
    store.put(("a",), "far", {"text": "bbbb"}, ttl=10)
    time.pass_minutes(9)
    assert keys(store.search(("a",), query="aaaa", limit=1)) == ["near"]
    time.pass_minutes(9)
    assert keys(store.search(("a",), query="aaaa")) == ["near"]


@pytest.mark.parametrize(
    "operations", [OURS.store.base, LANGGRAPH.store.base], ids=["ours", "langgraph"]
)
def test_batched_store_combines_concurrent_calls_into_one_batch(operations: Any) -> None:
    batches: list[list[Any]] = []

    class Batched(operations.batch.AsyncBatchedBaseStore):  # type: ignore[misc]
        async def abatch(self, given: Iterable[Any]) -> list[Any]:
            batches.append([type(op).__name__ for op in given])
            return [op.key if hasattr(op, "key") else None for op in given]

    async def main() -> None:
        store = Batched()
        results = await asyncio.gather(
            store.aput(("a",), "k", {"v": 1}),
            store.aget(("a",), "k"),
            store.aget(("a",), "k"),
            store.aput(("a",), "k", {"v": 2}),
            store.asearch(("a",), filter={"v": 1}),
            store.asearch(("a",), filter={"v": 1}),
            store.asearch(("a",), filter={"v": 2}),
            store.alist_namespaces(),
        )
        assert results[1:3] == ["k"] * 2
        assert batches == [["PutOp", "GetOp", "SearchOp", "SearchOp", "ListNamespacesOp"]]
        with pytest.raises(asyncio.InvalidStateError, match="async"):
            store.get(("a",), "k")
        with pytest.raises(asyncio.InvalidStateError, match="async"):
            store.batch([])
        assert await asyncio.to_thread(store.get, ("a",), "thread") == "thread"
        await asyncio.to_thread(store.put, ("a",), "thread", {})
        assert await asyncio.to_thread(store.batch, [operations.GetOp(("a",), "k")]) == ["k"]

    asyncio.run(main())


def test_batched_store_serves_a_second_event_loop_and_calls_after_errors_and_cancellation() -> None:
    class Batched(OURS.store.base.batch.AsyncBatchedBaseStore):  # type: ignore[misc]
        async def abatch(self, given: Iterable[Any]) -> list[Any]:
            if any(op.key == "bad" for op in given):
                raise LookupError("bad")
            return [op.key for op in given]

    async def main() -> None:
        store = Batched()
        elsewhere = asyncio.to_thread(lambda: asyncio.run(store.aget(("a",), "elsewhere")))
        assert await elsewhere == "elsewhere"
        for outcome in await asyncio.gather(
            store.aget(("a",), "k"), store.aget(("a",), "bad"), return_exceptions=True
        ):
            assert isinstance(outcome, LookupError)
        cancelled = asyncio.ensure_future(store.aget(("a",), "bad"))
        asyncio.get_running_loop().call_soon(cancelled.cancel)
        asked = asyncio.ensure_future(store.aget(("a",), "k"))
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await asked in ("k", None)

    asyncio.run(main())


def test_batched_store_starts_a_batch_after_the_previous_batch_ends() -> None:
    began: list[str] = []

    class Batched(OURS.store.base.batch.AsyncBatchedBaseStore):  # type: ignore[misc]
        async def abatch(self, given: Iterable[Any]) -> list[Any]:
            began.append("".join(op.key for op in given))
            await gate.wait()
            return [op.key for op in given]

    async def main() -> None:
        store = Batched()
        asked = [asyncio.ensure_future(store.aget(("a",), "1"))]
        while not began:
            await asyncio.sleep(0)
        asked += [asyncio.ensure_future(store.aget(("a",), key)) for key in "23"]
        for _ in range(5):  # yields during which another batch could start
            await asyncio.sleep(0)
        assert began == ["1"]
        gate.set()
        assert await asyncio.gather(*asked) == ["1", "2", "3"]
        assert began == ["1", "23"]

    gate = asyncio.Event()
    asyncio.run(main())
