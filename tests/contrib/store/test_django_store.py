"""The store in the database: invalid input, sharing and transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from asgiref.sync import sync_to_async
from django.core import serializers
from django.db import IntegrityError, connections, transaction
from django.db.models import F, Model
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from hitl_django import START, StateGraph, services, testing, transact
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.store.expiry import delete_expired
from hitl_django.contrib.store.models import StoreItem
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import (
    InvalidNamespaceError,
    PayloadLimitError,
    UnserializableError,
)
from hitl_django.engine.store import BaseStore, GetOp, PutOp, SearchOp
from hitl_django.graph_registry import registry
from hitl_django.langgraph.config import get_store
from hitl_django.langgraph.prebuilt import InjectedStore, ToolNode
from hitl_django.models import Run
from hitl_django.models.fields import decode_namespace, encode_namespace
from hitl_django.worker.sweeper import sweep

from .embedders import index_of

pytestmark = pytest.mark.django_db

NAME = "shared"


class State(TypedDict, total=False):
    seen: list[Any]
    messages: list[Any]


Register = Callable[..., None]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register a graph of one node with a store in the database."""

    def make(node: Callable[..., Any]) -> None:
        graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
        registry.register(NAME)(lambda: graph.compile(store=DjangoStore(index=index_of())))

    yield make
    registry.unregister(NAME)


def run(**given: Any) -> Run:
    with testing.inline() as advance:
        info = services.start(NAME, {"seen": [], **given})
        advance()
    return Run.objects.get(pk=info.id)


def count_statements(call: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connections[write_alias()]) as captured:
        call()
    return len(captured)


def expire(*keys: str) -> None:
    long_ago = StoreItem.objects.earliest("created_at").created_at - timedelta(days=1)
    StoreItem.objects.filter(key__in=keys).update(expires_at=long_ago)


def test_django_store_instances_share_items_and_embeddings() -> None:
    DjangoStore(index=index_of()).put(("a", "b"), "k", {"text": "aaa"})
    other = DjangoStore(index=index_of())
    assert other.get(("a", "b"), "k").value == {"text": "aaa"}  # type: ignore[union-attr]
    assert other.search(("a",), query="aa")[0].score is not None
    assert DjangoStore().search(("a",), query="aa")[0].score is None


def test_django_store_preserves_types_and_key_order_of_a_json_value() -> None:
    value = {
        "z": [1, -1.5, 2**100, True, None, "naïve ✓\u202e", 1e308, -0.0],
        "a": {"": {}, "b": []},
    }
    DjangoStore().put(("a",), "k", value)
    item = DjangoStore().get(("a",), "k")
    assert item is not None
    assert item.value == value
    assert [*item.value] == ["z", "a"]


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (
            {"a": {"b": object()}},
            UnserializableError,
            r"store value 'k' contains a value of type object at \$\.a\.b",
        ),
        ({"a": float("nan")}, UnserializableError, r"nan at \$\.a"),
        ({"a": "\0"}, UnserializableError, r"\$\.a"),
        ({1: "a"}, UnserializableError, "is not a str"),
        ("text", TypeError, "Store values must be dicts, not str"),
    ],
)
def test_django_store_put_of_non_json_value_raises_error_with_path_and_stores_no_item(
    value: Any, error: Any, said: str
) -> None:
    store = DjangoStore()
    with pytest.raises(error, match=said):
        store.put(("a",), "k", value)
    with pytest.raises(error, match=said):
        store.batch([PutOp(("a",), "fine", {}), PutOp(("a",), "k", value)])
    assert not StoreItem.objects.exists()


@pytest.mark.parametrize(
    ("namespace", "key", "error"),
    [
        (("a.b",), "k", InvalidNamespaceError),
        (("a\0",), "k", InvalidNamespaceError),
        (("\ud800",), "k", InvalidNamespaceError),
        (("a",), 5, TypeError),
        (("a",), "\0", UnserializableError),
        (("a",), "\ud800", UnserializableError),
        (("a",), "k" * 2000, PayloadLimitError),
        (("é" * 500, "ü" * 500), "k", PayloadLimitError),
    ],
    ids=ascii,
)
def test_django_store_put_with_unstorable_or_too_long_key_or_namespace_is_rejected(
    namespace: Any, key: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        DjangoStore().batch([PutOp(namespace, key, {})])


def test_django_store_accepts_key_of_maximum_length() -> None:
    key = "".join(chr(33 + n % 90) for n in range(1996))
    DjangoStore().put(("a", "b"), key, {"v": 1})
    assert DjangoStore().get(("a", "b"), key) is not None


def test_django_store_get_or_search_with_invalid_namespace_raises_invalid_namespace_error() -> None:
    with pytest.raises(InvalidNamespaceError):
        DjangoStore().batch([GetOp(("a.b",), "k")])
    with pytest.raises(InvalidNamespaceError):
        DjangoStore().batch([SearchOp(("",))])


def test_django_store_batch_of_100_operations_takes_at_most_five_statements() -> None:
    store = DjangoStore()
    puts = [PutOp(("a", str(n % 7)), f"k{n}", {"n": n}) for n in range(100)]
    # Together with those of the transaction.
    assert count_statements(lambda: store.batch(puts)) <= 5
    gets = [GetOp(op.namespace, op.key) for op in puts]
    assert count_statements(lambda: store.batch(gets)) == 1
    assert [item.value["n"] for item in store.batch(gets)] == [*range(100)]  # type: ignore[union-attr]
    assert count_statements(lambda: store.get(("a", "1"), "k1")) == 1
    assert count_statements(lambda: store.search(("a",), limit=50)) == 1


def test_django_store_search_filters_and_limits_in_sql() -> None:
    store = DjangoStore(index=index_of())
    for n in range(4):
        store.put(("a", str(n)), "k", {"text": f"no {n}"})
    with CaptureQueriesContext(connections[write_alias()]) as captured:
        store.search(("a",), limit=3, offset=0)
        store.search(("a",), filter={"text": "no 2"})
        store.search(("a",), query="a")
        store.list_namespaces(prefix=("a", "*"))
    page, filtered, ranked, found, listed = (query["sql"] for query in captured)
    assert "LIMIT 3" in page
    assert '"no 2"' in filtered
    assert '"vectors"' not in page + filtered + found
    assert '"value"' not in ranked
    assert ">=" in listed


def test_django_store_batch_of_1200_items_is_stored_and_deleted() -> None:
    store = DjangoStore()
    puts = [PutOp(("a", str(n)), "k", {"n": n}, ttl=5) for n in range(1200)]
    store.batch(puts)
    found = store.batch([GetOp(op.namespace, op.key) for op in puts])
    assert [item.value["n"] for item in found] == [*range(1200)]  # type: ignore[union-attr]
    store.batch([op._replace(value=None) for op in puts])
    assert not StoreItem.objects.exists()


def test_django_store_batch_failing_at_insert_leaves_earlier_rows_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = DjangoStore()
    store.put(("a",), "gone", {"v": 1})

    def fail(*args: Any, **kwargs: Any) -> None:
        raise IntegrityError("refused")

    monkeypatch.setattr("django.db.models.query.QuerySet.bulk_create", fail)
    with pytest.raises(IntegrityError):
        store.batch([PutOp(("a",), "gone", None), PutOp(("a",), "new", {})])
    assert [item.key for item in store.search(("a",))] == ["gone"]


def test_replaced_django_store_item_keeps_created_at_and_gets_new_updated_at() -> None:
    store = DjangoStore()
    store.put(("a",), "k", {})
    StoreItem.objects.update(
        created_at=F("created_at") - timedelta(days=1),
        updated_at=F("updated_at") - timedelta(days=1),
    )
    before = store.get(("a",), "k")
    store.put(("a",), "k", {})
    after = store.get(("a",), "k")
    assert before is not None
    assert after is not None
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at + timedelta(hours=23)


def test_django_store_search_orders_items_by_namespace() -> None:
    store = DjangoStore()
    for namespace, key in [("b", "1"), ("a", "2"), ("b", "3"), ("a", "4")]:
        store.put((namespace,), key, {})
    assert [item.key for item in store.search(())] == ["2", "4", "1", "3"]


def test_django_store_put_with_failing_embeddings_stores_no_item() -> None:
    def embed(texts: Any) -> Any:
        raise ConnectionError("the model is away")

    store = DjangoStore(index=index_of(embed=embed))
    with pytest.raises(ConnectionError):
        store.batch([PutOp(("a",), "k", {"text": "a"})])
    assert not StoreItem.objects.exists()


def test_django_store_computes_embeddings_outside_transactions() -> None:
    depths = []

    def embed(texts: Any) -> Any:
        depths.append(len(connections[write_alias()].savepoint_ids))
        return [[1.0] for _ in texts]

    before = len(connections[write_alias()].savepoint_ids)
    DjangoStore(index=index_of(embed=embed)).put(("a",), "k", {"text": "a"})
    assert depths == [before]


def test_sweep_deletes_expired_store_items() -> None:
    store = DjangoStore()
    for key in ("1", "2", "3"):
        store.put(("a",), key, {}, ttl=1)
    store.put(("a",), "stays", {})
    sweep()
    assert StoreItem.objects.count() == 4
    expire("1", "2")
    sweep()
    assert sorted(StoreItem.objects.values_list("key", flat=True)) == ["3", "stays"]


def test_store_expiry_deletes_at_most_its_limit_per_call() -> None:
    store = DjangoStore()
    for key in "12345":
        store.put(("a",), key, {}, ttl=1)
    expire(*"12345")
    assert [delete_expired(2), delete_expired(2), delete_expired(2), delete_expired(2)] == [
        2, 2, 1, 0,
    ]  # fmt: skip


def test_store_expiry_deletes_the_longest_expired_items_first() -> None:
    store = DjangoStore()
    for key in ("stays", "second", "first"):
        store.put(("a",), key, {}, ttl=None if key == "stays" else 1)
    expire("second", "first")
    first = StoreItem.objects.filter(key="first")
    first.update(expires_at=F("expires_at") - timedelta(days=1))
    assert delete_expired(1) == 1
    assert not first.exists()
    assert delete_expired(1) == 1
    assert [item.key for item in store.search(())] == ["stays"]


def test_store_item_put_again_during_expiry_is_not_deleted() -> None:
    store = DjangoStore()
    store.put(("a",), "k", {}, ttl=1)
    expire("k")

    def put_before(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("DELETE"):
            StoreItem.objects.update(expires_at=None)
        return execute(sql, *rest)

    with connections[write_alias()].execute_wrapper(put_before):
        assert delete_expired(5) == 0
    assert store.get(("a",), "k") is not None


def test_store_expiry_failure_is_logged_and_does_not_fail_the_sweep(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(limit: int) -> int:
        raise LookupError

    monkeypatch.setattr("hitl_django.contrib.store.expiry.delete_expired", fail)
    sweep()
    assert "store could not be processed" in caplog.text


class Router:
    """Router that sends reads to an unavailable replica."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return "replica" if model._meta.app_label == "hitl_django" else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        return "default" if model._meta.app_label == "hitl_django" else None


def test_django_store_reads_from_the_write_database() -> None:
    with override_settings(DATABASE_ROUTERS=[Router()]):
        store = DjangoStore(index=index_of())
        store.put(("a",), "k", {"text": "a"}, ttl=5)
        assert store.get(("a",), "k") is not None
        assert store.search(("a",), query="a", filter={"text": "a"})
        assert store.list_namespaces() == [("a",)]
        store.delete(("a",), "k")
        assert store.sweep_ttl() == 0


def test_store_item_rows_are_filtered_and_serialized_by_namespace_tuple() -> None:
    DjangoStore().put(("users", "ann"), "k", {"v": 1})
    row = StoreItem.objects.get(namespace=("users", "ann"))
    assert (row.namespace, str(row)) == (("users", "ann"), "users/ann/k")
    [loaded] = serializers.deserialize("json", serializers.serialize("json", [row]))
    assert (loaded.object.namespace, loaded.object.value) == (("users", "ann"), {"v": 1})
    for labels in ((), ("a",), ("a", "b"), ("é", "\x01")):
        assert decode_namespace(encode_namespace(labels)) == labels


def test_node_and_get_store_receive_the_store_of_the_compiled_graph(
    register: Register,
) -> None:
    def node(state: State, store: BaseStore, runtime: Any = None) -> State:
        store.put(("a",), "k", {"text": "aaa"})
        found = get_store().search(("a",), query="aaa")
        return {"seen": [store is get_store(), found[0].value]}

    register(node)
    assert services.run_result(run().pk)["seen"] == [True, {"text": "aaa"}]
    assert StoreItem.objects.get().namespace == ("a",)


def test_tool_with_injected_store_argument_writes_to_the_store(register: Register) -> None:
    def remember(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Remember a text."""
        store.put(("notes",), "note", {"text": text})
        return "remembered"

    register(ToolNode([remember]))
    call = {"id": "1", "name": "remember", "args": {"text": "b"}}
    run(messages=[{"role": "assistant", "content": "", "tool_calls": [call]}])
    assert DjangoStore().get(("notes",), "note").value == {"text": "b"}  # type: ignore[union-attr]


@pytest.mark.django_db(transaction=True)
def test_async_node_reads_and_writes_the_store(register: Register) -> None:
    async def node(state: State, store: BaseStore) -> State:
        await store.aput(("a",), "k", {"v": 1})
        found = await store.aget(("a",), "k")
        assert found is not None
        return {"seen": [found.value]}

    register(node)
    try:
        assert services.run_result(run().pk)["seen"] == [{"v": 1}]
    finally:
        # Async nodes use an OS thread that outlives the test and its database.
        asyncio.run(sync_to_async(connections.close_all)())


def test_node_run_twice_with_a_constant_store_key_stores_one_item(register: Register) -> None:
    def node(state: State, store: BaseStore) -> State:
        store.put(("a",), "k", {"v": 1})
        return {"seen": [len(store.search(("a",)))]}

    register(node)
    assert [services.run_result(run().pk)["seen"] for _ in range(2)] == [[1], [1]]
    assert StoreItem.objects.count() == 1


def test_failed_node_leaves_only_store_items_put_outside_transact(register: Register) -> None:
    def node(state: State, store: BaseStore) -> State:
        store.put(("a",), "stays", {})

        def write() -> None:
            store.put(("a",), "reverted", {})
            raise LookupError

        transact("write", write)
        return {}

    register(node)
    assert run().state == "failed"
    assert list(StoreItem.objects.values_list("key", flat=True)) == ["stays"]


def test_django_store_put_inside_rolled_back_transaction_stores_no_item() -> None:
    store = DjangoStore()
    with transaction.atomic(using=write_alias()):
        store.put(("a",), "k", {})
        transaction.set_rollback(True, using=write_alias())
    assert store.get(("a",), "k") is None


@pytest.mark.race
@pytest.mark.django_db(transaction=True)
def test_django_store_concurrent_batches_store_all_items_without_deadlock() -> None:
    keys, faults = [f"k{n}" for n in range(12)], []
    together = threading.Barrier(4)

    def put(order: list[str], name: str) -> None:
        store = DjangoStore()
        try:
            for turn in range(15):
                together.wait(60)
                store.batch([PutOp(("a",), key, {"by": name, "turn": turn}) for key in order])
        except BaseException as error:
            faults.append(error)
            together.abort()
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=put, args=(keys[:: 1 if n % 2 else -1], str(n))) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    found = [item.value for item in DjangoStore().search(("a",), limit=99)]
    assert len(found) == 12
    assert all(value == found[0] for value in found)  # each batch is one transaction
