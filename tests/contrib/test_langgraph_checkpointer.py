"""DjangoCheckpointer: LangGraph's checkpointer interface on Django's database."""

from __future__ import annotations

import contextvars
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections, transaction
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import id as their_ids
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.graph import StateGraph, add_messages
from langgraph.types import Command, Overwrite, Send, TimeoutPolicy, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.langgraph import DjangoCheckpointer
from hitl_django.contrib.langgraph.shared_connection import call_with_connection
from hitl_django.db.shared_connections import shared_connections
from hitl_django.engine.errors import UnserializableError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit
from hitl_django.engine.serde import Codec
from hitl_django.errors import OpenTransactionError

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.django_db
@pytest.mark.parametrize("capability", list(Capability), ids=lambda one: one.value)
def test_django_checkpointer_passes_langgraph_conformance_tests(capability: Capability) -> None:
    @checkpointer_test(name="DjangoCheckpointer")
    async def made() -> AsyncIterator[DjangoCheckpointer]:
        yield DjangoCheckpointer()

    report = async_to_sync(validate)(made, capabilities={capability.value})
    found = report.results[capability.value]
    assert (found.detected, found.failures) == (True, [])
    assert found.tests_passed


@dataclass
class Refund:
    """A class of the application, as a state may hold it."""

    cents: int


class Note(BaseModel):
    """Another."""

    text: str


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    refund: Any
    held: Any


def look(state: State) -> State:
    answer = interrupt({"refund": state["refund"].cents})
    text = AIMessage("done", id="2").text  # a str of langchain's own class
    return {
        "messages": [AIMessage(f"{answer}", id="2")],
        "held": [text, Document("d"), Note(text="n")],
    }


def build(checkpointer: Any) -> Any:
    graph = StateGraph(State).add_node("look", look)
    return graph.add_edge("__start__", "look").compile(checkpointer=checkpointer)


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def acall(graph: Any, value: Any) -> Any:
        return await graph.ainvoke(value, CONFIG)

    if request.param == "sync":
        return lambda graph, value: graph.invoke(value, CONFIG)
    return async_to_sync(acall)


@pytest.mark.django_db(transaction=True)
def test_langgraph_graph_resumes_interrupt_with_a_new_django_checkpointer(
    invoke: Callable[..., Any],
) -> None:
    given = {"messages": [HumanMessage("hi", id="1")], "refund": Refund(7)}
    asked = invoke(build(DjangoCheckpointer(types=[Refund, Note])), given)["__interrupt__"]
    assert [interrupt.value for interrupt in asked] == [{"refund": 7}]

    graph = build(DjangoCheckpointer())
    invoke(graph, Command(resume={asked[0].id: "yes"}))

    values = graph.get_state(CONFIG).values
    assert [message.content for message in values["messages"]] == ["hi", "yes"]
    assert values["refund"] == Refund(7)
    assert values["held"] == ["done", Document("d"), Note(text="n")]
    assert [found.metadata["step"] for found in graph.checkpointer.list(CONFIG)] == [1, 0, -1]


@pytest.mark.django_db(transaction=True)
def test_django_checkpointer_leaves_no_connection_of_langgraph_os_threads_open() -> None:
    used: list[Any] = []

    class Counted(DjangoSaver):
        def commit(self, commit: Commit) -> None:
            used.append(connections["default"])
            super().commit(commit)

    checkpointer = DjangoCheckpointer(types=[Refund, Note])
    checkpointer._saver = Counted()
    for number in range(3):
        config: Any = {"configurable": {"thread_id": str(number)}}
        build(checkpointer).invoke({"refund": Refund(1)}, config)

    # LangGraph started OS threads for each call, which wait for the next task now.
    lent = {id(one): one for one in used if one is not connections["default"]}
    assert 1 <= len(lent) < len(used)
    shared_connections.close()
    assert [one.connection for one in lent.values()] == [None] * len(lent)


@pytest.mark.django_db
def test_django_checkpointer_inside_open_transaction_raises_open_transaction_error() -> None:
    with pytest.raises(OpenTransactionError, match="Call the graph outside the transaction"):
        build(DjangoCheckpointer(types=[Refund, Note])).invoke({"refund": Refund(1)}, CONFIG)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at", ["newest", "addressed"])
def test_langgraph_state_updated_after_checkpoint_with_future_time_is_the_newest_state(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = DjangoCheckpointer(types=[Refund, Note])
    graph = build(checkpointer)
    graph.invoke({"refund": Refund(1)}, CONFIG)
    newest = checkpointer.get_tuple(CONFIG)
    monkeypatch.setattr(their_ids, "_last_v6_timestamp", None)
    with monkeypatch.context() as faster:
        hour_on = time.time_ns() + 3600 * 10**9
        faster.setattr(time, "time_ns", lambda: hour_on)
        ahead = {**newest.checkpoint, "id": str(their_ids.uuid6())}
    placed = checkpointer.put(newest.config, ahead, newest.metadata, {})
    # Simulates another process with a correct clock.
    monkeypatch.setattr(their_ids, "_last_v6_timestamp", None)

    graph.update_state(CONFIG if at == "newest" else placed, {"refund": Refund(2)})
    assert graph.get_state(CONFIG).values["refund"] == Refund(2)


def find_connection() -> int:
    return id(connections["default"])


@pytest.mark.django_db(transaction=True)
def test_checkpointer_call_nested_in_a_transaction_of_the_checkpointer_returns_its_result() -> None:
    def store() -> int:
        with transaction.atomic():
            # Like LangGraph's OS threads: in the context of the call, with the same connection.
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                call = partial(call_with_connection, "default", find_connection)
                return pool.submit(context.run, call).result(60)

    connection.ensure_connection()
    assert call_with_connection("default", store) != find_connection()
    with transaction.atomic(), pytest.raises(OpenTransactionError):
        call_with_connection("default", store)


@pytest.mark.django_db(transaction=True)
def test_checkpointer_connection_closed_in_a_transaction_is_replaced() -> None:
    connection.ensure_connection()
    mine = call_with_connection("default", find_connection)
    # Like a run after a node that left a transaction open.
    transaction.atomic().__enter__()
    connections["default"].close()
    del connections["default"]

    assert call_with_connection("default", find_connection) != mine
    assert connections["default"].connection is None


def test_checkpointer_codec_with_unregistered_class_raises_unserializable_error() -> None:
    class Unknown(BaseModel):
        text: str

    with pytest.raises(UnserializableError, match=r"Register it: register_model\(Unknown\)"):
        Codec().encode({"held": Unknown(text="?")})


@pytest.mark.django_db
def test_django_checkpointer_allowlist_registers_its_importable_classes() -> None:
    class Listed(BaseModel):
        text: str

    globals()["Listed"] = Listed
    Listed.__qualname__ = "Listed"
    listed = [(__name__, "Listed"), (__name__, "Missing"), ("no.module", "X"), int, build]
    checkpointer = DjangoCheckpointer()
    assert checkpointer.with_allowlist(listed) is checkpointer
    assert Codec().decode(Codec().encode(Listed(text="l"))) == Listed(text="l")


@pytest.mark.parametrize(
    "value",
    [
        Send("node", {"x": 1}, timeout=TimeoutPolicy(run_timeout=3)),
        Command(update={"x": 1}, goto=[Send("node", 1)]),
        Overwrite([1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_checkpointer_codec_stores_langgraph_types_without_module_names(value: Any) -> None:
    stored = Codec().encode([value])
    assert b"langgraph.types" not in stored
    assert Codec().decode(stored) == [value]


@pytest.mark.django_db
def test_django_checkpointer_stores_timeout_of_send() -> None:
    checkpointer = DjangoCheckpointer()
    sent = Send("node", {"x": 1}, timeout=TimeoutPolicy(run_timeout=3))
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    checkpointer.put_writes(config, [("__pregel_tasks", sent)], "task")
    ours: BaseCheckpointSaver = DjangoSaver()
    ours.put(
        {"configurable": {"thread_id": "t"}},
        {**_EMPTY, "id": "1"},  # type: ignore[typeddict-item]
        {},
        {},
    )
    found = checkpointer.get_tuple(CONFIG)
    assert found is not None
    assert found.pending_writes == [("task", "__pregel_tasks", sent)]
    assert found.pending_writes[0][2].timeout == TimeoutPolicy(run_timeout=3)


_EMPTY: dict[str, Any] = {
    "v": 4,
    "ts": "2026-01-01T00:00:00+00:00",
    "channel_values": {},
    "channel_versions": {},
    "versions_seen": {},
    "updated_channels": None,
}
