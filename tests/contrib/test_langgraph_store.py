"""LangGraph graphs with DjangoStore: in nodes, in threads, and shared with engine graphs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from langchain_core.messages import AIMessage
from langgraph.config import get_store
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.store.base import BaseStore, InvalidNamespaceError, Item, PutOp, SearchItem
from typing_extensions import TypedDict

from hitl_django import START, register, start, testing
from hitl_django import StateGraph as OurGraph
from hitl_django.contrib.langgraph import LangGraphStore
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.store.models import StoreItem
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import UnserializableError
from hitl_django.errors import OpenTransactionError
from hitl_django.graph_registry import registry
from tests.contrib.store.embedders import index_of
from tests.reading import values_of

#: LangGraph calls nodes on OS threads, which see only committed rows.
on_threads = pytest.mark.django_db(transaction=True)

USER = ("memories", "dana")


class State(TypedDict, total=False):
    wish: str
    found: list[Any]


def build_graph(store: BaseStore) -> Any:
    """Return a graph of LangGraph's that remembers a wish, and then finds all wishes."""

    def remember(state: State, store: BaseStore) -> State:
        store.put(USER, state["wish"], {"text": state["wish"]})
        return {}

    def recall(state: State) -> State:
        return {"found": [item.key for item in get_store().search(USER)]}

    graph = StateGraph(State).add_node(remember).add_node(recall)
    return graph.add_edge(START, "remember").add_edge("remember", "recall").compile(store=store)


@on_threads
def test_langgraph_graph_reads_and_writes_items_of_the_django_store() -> None:
    graph = build_graph(LangGraphStore())
    assert graph.invoke({"wish": "mail"})["found"] == ["mail"]
    assert asyncio.run(graph.ainvoke({"wish": "call"}))["found"] == ["mail", "call"]


@on_threads
def test_langgraph_async_node_uses_async_methods_of_the_django_store() -> None:
    async def remember(state: State, store: BaseStore) -> State:
        await store.aput(USER, "k", {"text": state["wish"]})
        [found] = await store.asearch(USER, query=state["wish"])
        return {"found": [found.value["text"], round(found.score or 0, 3)]}

    graph = StateGraph(State).add_node(remember).add_edge(START, "remember")
    compiled = graph.compile(store=LangGraphStore(index=index_of("text")))
    assert asyncio.run(compiled.ainvoke({"wish": "aab"}))["found"] == ["aab", 1.0]


@on_threads
def test_langgraph_tool_with_injected_store_writes_to_the_django_store() -> None:
    def note(text: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Note a text."""
        store.put(USER, text, {"text": text})
        return f"noted {text}"

    graph = StateGraph(MessagesState).add_node("tools", ToolNode([note]))
    compiled = graph.add_edge(START, "tools").compile(store=LangGraphStore())
    call: Any = {"name": "note", "args": {"text": "mail"}, "id": "1", "type": "tool_call"}
    compiled.invoke({"messages": [AIMessage("", tool_calls=[call])]})
    assert DjangoStore().get(USER, "mail").value == {"text": "mail"}  # type: ignore[union-attr]


@on_threads
def test_langgraph_graph_and_package_graph_share_store_items() -> None:
    def recall(state: State, store: Any) -> State:
        return {"found": [item.key for item in store.search(USER)]}

    @register("recalls", version="1")
    def build() -> Any:
        graph = OurGraph(State).add_node(recall).add_edge(START, "recall")
        return graph.compile(store=DjangoStore())

    try:
        build_graph(LangGraphStore()).invoke({"wish": "mail"})
        DjangoStore().put(USER, "ours", {"text": "call"})
        assert LangGraphStore().get(USER, "ours").value == {"text": "call"}  # type: ignore[union-attr]
        with testing.inline() as advance:
            run = start("recalls", {"wish": ""})
            advance()
        assert values_of(run)["found"] == ["mail", "ours"]
    finally:
        registry.unregister("recalls")


@on_threads
def test_langgraph_store_call_in_another_os_thread_leaves_no_connection_open() -> None:
    left: list[Any] = []

    def use_store() -> None:
        LangGraphStore(index=index_of()).put(USER, "k", {"text": "a"})
        LangGraphStore().sweep_ttl()
        left.append(connections[write_alias()].connection)

    thread = threading.Thread(target=use_store)
    thread.start()
    thread.join()
    assert StoreItem.objects.count() == 1
    assert left == [None]


@on_threads
def test_langgraph_store_put_in_rolled_back_transaction_is_discarded() -> None:
    seen: list[Any] = []

    def use_store() -> None:
        try:
            with transaction.atomic(write_alias()):
                LangGraphStore().put(USER, "k", {})
                seen.append(StoreItem.objects.using(write_alias()).count())
                transaction.set_rollback(True, write_alias())
        finally:
            connections[write_alias()].close()

    thread = threading.Thread(target=use_store)
    thread.start()
    thread.join()
    assert seen == [1]
    assert not StoreItem.objects.exists()


@on_threads
def test_store_call_from_other_os_thread_in_a_transaction_raises_open_transaction_error() -> None:
    store = LangGraphStore()
    with transaction.atomic(write_alias()):
        store.put(USER, "k", {})
        with pytest.raises(OpenTransactionError, match="Call the graph outside the transaction"):
            run_elsewhere(store.get, USER, "k")
    assert run_elsewhere(store.get, USER, "k") is not None


def run_elsewhere(call: Callable[..., Any], *args: Any) -> Any:
    with ThreadPoolExecutor() as threads:
        return threads.submit(copy_context().run, call, *args).result()


@pytest.mark.django_db
def test_langgraph_store_returns_instances_of_langgraph_item_classes() -> None:
    store = LangGraphStore()
    store.put(USER, "k", {"v": 1})
    [found] = store.search(USER)
    got = store.get(USER, "k")
    assert type(got) is Item
    assert type(found) is SearchItem
    assert got.dict() == {key: value for key, value in found.dict().items() if key != "score"}


@pytest.mark.django_db
def test_langgraph_store_put_with_invalid_namespace_raises_error_class_of_langgraph() -> None:
    store = LangGraphStore()
    for batch in ([PutOp(("a.b",), "k", {})], [PutOp(("\ud800",), "k", {})]):
        with pytest.raises(InvalidNamespaceError, match="labels cannot contain"):
            store.batch(batch)
        with pytest.raises(InvalidNamespaceError, match="labels cannot contain"):
            async_to_sync(store.abatch)(batch)
    with pytest.raises(UnserializableError, match=r"object at \$\.a"):
        store.put(USER, "k", {"a": object()})
