"""LangGraph's RemoteGraph as a node, with a server in this process."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from langgraph_sdk.errors import NotFoundError
from typing_extensions import TypedDict

from hitl_django import StateGraph
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt
from hitl_django.services import RunOptions
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db(transaction=True)


class State(TypedDict, total=False):
    said: Annotated[list[Any], operator.add]


class Server:
    """The SDK's client for a server with one graph, whose calls are recorded."""

    def __init__(self) -> None:
        self.runs = self.threads = self
        self.calls: list[dict[str, Any]] = []
        graph = ForeignStateGraph(State, context_schema=dict).add_node("ask", self.ask)
        self.graph: Any = graph.add_edge(START, "ask").compile(checkpointer=InMemorySaver())

    def ask(self, state: State, runtime: Runtime[dict[str, Any]]) -> State:
        answers = [interrupt({"title": f"{number}?"}) for number in ("First", "Second")]
        return {"said": [*answers, (runtime.context or {}).get("user")]}

    def stream(self, thread_id: str, assistant_id: str, **options: Any) -> Iterator[Any]:
        self.calls.append({"thread_id": thread_id, **options})
        config = {"configurable": {"thread_id": thread_id}}
        command = options["command"]
        given = options["input"] if command is None else Command(resume=command["resume"])
        self.graph.invoke(given, config, context=options["context"])
        return iter(())

    def list(self, thread_id: str, **options: Any) -> list[Any]:
        return []

    def get_state(self, thread_id: str, **options: Any) -> dict[str, Any]:
        state = self.graph.get_state({"configurable": {"thread_id": thread_id}})
        if state.created_at is None:
            raise MISSING
        tasks = [
            {
                "id": task.id, "name": task.name, "error": None, "state": None, "checkpoint": None,
                "interrupts": [{"value": one.value, "id": one.id} for one in task.interrupts],
            }
            for task in state.tasks
        ]  # fmt: skip
        place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": "1"}
        return {
            "values": state.values, "next": state.next, "tasks": tasks, "metadata": {},
            "checkpoint": place, "parent_checkpoint": None, "created_at": state.created_at,
        }  # fmt: skip


MISSING = NotFoundError.__new__(NotFoundError)


@pytest.fixture
def server() -> Iterator[Server]:
    with registry.hide_graphs():
        yield Server()


@pytest.mark.parametrize("is_registered", [False, True])
def test_remote_graph_as_node_receives_config_and_context_and_its_interrupts_are_pending_locally(
    hitl: GraphEnvironment, server: Server, is_registered: bool
) -> None:
    remote: Any = RemoteGraph("asks", sync_client=server, name="remote")  # type: ignore[arg-type]
    kind: Any = ForeignStateGraph if is_registered else StateGraph
    graph = kind(State, context_schema=dict).add_node("remote", remote)
    graph.add_edge(START, "remote")
    register: Any = register_langgraph if is_registered else registry.register
    register("calls")(lambda: graph)
    options = RunOptions(tags=["mine"], recursion_limit=7)
    run = hitl.start(
        "calls", {"said": ["in"]}, context={"user": "ann"}, configurable={"tenant": "t1"},
        options=options,
    )  # fmt: skip
    hitl.decide("First?", "approve")
    hitl.decide("Second?", "reject")
    assert hitl.assert_finished(run)["said"][-3:] == [True, False, "ann"]
    assert Interrupt.objects.count() == 2
    first, *others = server.calls
    assert [call["thread_id"] for call in others] == [first["thread_id"]] * 2
    assert first["input"] == {"said": ["in"]}
    assert (first["config"]["tags"], first["config"]["configurable"]) == (
        ["mine"], {"tenant": "t1"}
    )  # fmt: skip
