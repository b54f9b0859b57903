"""DjangoCheckpointer: what LangGraph asks of a checkpointer, over Django's database."""

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
from hitl_django.db.shared_connections import lent_connections
from hitl_django.engine.errors import UnserializableError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit
from hitl_django.engine.serde import Codec
from hitl_django.errors import OpenTransactionError

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.django_db
@pytest.mark.parametrize("capability", list(Capability), ids=lambda one: one.value)
def test_it_does_what_langgraph_asks_of_a_checkpointer(capability: Capability) -> None:
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
def test_a_graph_is_taken_up_from_what_another_has_stored(invoke: Callable[..., Any]) -> None:
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
def test_the_threads_that_langgraph_stores_on_leave_no_connection_behind() -> None:
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

    # LangGraph began some threads for each call: they were lent what waits for the next now.
    lent = {id(one): one for one in used if one is not connections["default"]}
    assert 1 <= len(lent) < len(used)
    lent_connections.close()
    assert [one.connection for one in lent.values()] == [None] * len(lent)


@pytest.mark.django_db
def test_a_call_within_a_transaction_that_its_threads_dont_see_is_refused() -> None:
    with pytest.raises(OpenTransactionError, match="Call the graph outside the transaction"):
        build(DjangoCheckpointer(types=[Refund, Note])).invoke({"refund": Refund(1)}, CONFIG)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at", ["newest", "addressed"])
def test_what_follows_a_checkpoint_of_a_faster_clock_is_newer(
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
    # As another process has it, whose clock is right.
    monkeypatch.setattr(their_ids, "_last_v6_timestamp", None)

    graph.update_state(CONFIG if at == "newest" else placed, {"refund": Refund(2)})
    assert graph.get_state(CONFIG).values["refund"] == Refund(2)


def find_connection() -> int:
    return id(connections["default"])


@pytest.mark.django_db(transaction=True)
def test_what_its_caller_stores_at_the_same_time_is_no_transaction_of_the_callers() -> None:
    def store() -> int:
        with transaction.atomic():
            # As LangGraph's threads do: in the context of the call, on no connection of their own.
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                call = partial(call_with_connection, "default", find_connection)
                return pool.submit(context.run, call).result(60)

    connection.ensure_connection()
    assert call_with_connection("default", store) != find_connection()
    with transaction.atomic(), pytest.raises(OpenTransactionError):
        call_with_connection("default", store)


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_was_left_open_is_over_with_its_connection() -> None:
    connection.ensure_connection()
    mine = call_with_connection("default", find_connection)
    # As a run does with what its node left open.
    transaction.atomic().__enter__()
    connections["default"].close()
    del connections["default"]

    assert call_with_connection("default", find_connection) != mine
    assert connections["default"].connection is None


def test_a_class_that_nobody_named_is_refused_when_it_is_stored() -> None:
    class Unknown(BaseModel):
        text: str

    with pytest.raises(UnserializableError, match=r"Register it: register_model\(Unknown\)"):
        Codec().encode({"held": Unknown(text="?")})


@pytest.mark.django_db
def test_a_graphs_own_allow_list_names_classes_as_well() -> None:
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
def test_what_langgraph_puts_into_state_is_stored_under_names_of_ours(value: Any) -> None:
    stored = Codec().encode([value])
    assert b"langgraph.types" not in stored
    assert Codec().decode(stored) == [value]


@pytest.mark.django_db
def test_a_time_limit_of_a_send_is_stored_with_it() -> None:
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
