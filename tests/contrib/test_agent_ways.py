"""Features of each way to run an agent, as listed in the table of the agents' guide."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.prebuilt import ToolNode as ForeignToolNode
from langgraph.prebuilt import tools_condition as foreign_condition
from langgraph.types import interrupt

from hitl_django import START, ReviewPolicy, StateGraph, once, review, transact
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry import registry
from hitl_django.langgraph.graph import MessagesState
from hitl_django.langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from hitl_django.models import Checkpoint, Interrupt, Run, RunEvent
from hitl_django.testing import GraphEnvironment

from .scripted_agents import ScriptedModel, build_asking_agent

pytestmark = pytest.mark.django_db(transaction=True)

#: The calls of ``charge``.
charges: list[str] = []
INPUT = {"messages": [{"role": "user", "content": "Pay Ines."}]}


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    charges.clear()
    with registry.hide_graphs():
        yield


def charge(to: str) -> str:
    charges.append(to)
    return f"charged for {to}"


def book(to: str) -> str:
    return Group.objects.create(name=to).name


def pay(to: str) -> str:
    """Pay a person."""
    once("charge", charge, to)
    transact("book", book, to)
    approved = review({"title": f"Pay {to}?"}, quorum=2, due=timedelta(hours=1))
    return "paid" if approved else "refused"


def ask(to: str) -> str:
    """Ask whether to pay a person."""
    return str(interrupt({"title": f"Pay {to}?"}))


def build_model() -> ScriptedModel:
    return ScriptedModel(script=[[("pay", {"to": "Ines"})], [("pay", {"to": "Lena"})], "Done."])


def call_model(state: Any) -> Any:
    return {"messages": build_model().invoke(state["messages"])}


def build_langgraph_agent() -> Any:
    return create_agent(build_model(), [pay])


def build_node() -> Any:
    return build_around(build_langgraph_agent())


def build_around(agent: Any) -> Any:
    return StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")


def build_tool_node() -> Any:
    graph = StateGraph(MessagesState).add_node("tools", ToolNode([pay]))
    graph.add_node("model", call_model)
    graph.add_conditional_edges("model", tools_condition)
    return graph.add_edge(START, "model").add_edge("tools", "model")


def build_react_agent() -> Any:
    return create_react_agent(build_model(), [pay])


async def pay_later(to: str) -> str:
    """Pay a person, on an event loop."""
    await once("charge", charge_later, to)
    await asyncio.to_thread(transact, "book", book, to)
    approved = review({"title": f"Pay {to}?"}, quorum=2, due=timedelta(hours=1))
    return "paid" if approved else "refused"


async def charge_later(to: str) -> str:
    return charge(to)


def build_async_agent() -> Any:
    return create_agent(build_model(), [tool("pay")(pay_later)])


#: LangGraph cancels tool calls that haven't begun when another tool call pauses.
both_run = Barrier(2)


def pay_together(to: str) -> str:
    """Pay a person while another person is paid."""
    both_run.wait(timeout=30)
    return pay(to)


def build_parallel_agent() -> Any:
    """Return a LangGraph graph that runs both tool calls in one task."""
    calls = [("pay", {"to": "Ines"}), ("pay", {"to": "Lena"})]
    model = ScriptedModel(script=[calls, "Done."])
    graph = ForeignStateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    together = ForeignToolNode([tool("pay")(pay_together)])
    graph.add_node("tools", together).add_edge(START, "model")
    graph.add_conditional_edges("model", foreign_condition).add_edge("tools", "model")
    return graph.compile()


@pytest.mark.parametrize(
    ("register", "build", "agent"),
    [
        (registry.register, build_node, "agent"),
        (registry.register, build_tool_node, ""),
        (registry.register, build_react_agent, ""),
        (register_langgraph, build_langgraph_agent, ""),
        (register_langgraph, build_async_agent, ""),
        (partial(register_langgraph, durability="async"), build_langgraph_agent, ""),
    ],
)
def test_once_transact_and_review_work_in_tools_of_each_kind_of_agent(
    hitl: GraphEnvironment, register: Any, build: Any, agent: str
) -> None:
    register("pays", events=["messages", "updates"])(build)
    people = [User.objects.create_superuser(name) for name in ("ann", "bob")]
    run = hitl.start("pays", INPUT)
    hitl.assert_asks(run, "Pay Ines?")
    for person in people:
        hitl.decide("Pay Ines?", "approve", by=person)
    hitl.assert_asks(run, "Pay Lena?")
    hitl.decide("Pay Lena?", "reject", by=people[0])
    messages = hitl.assert_finished(run)["messages"]
    assert [one["content"] for one in messages if one["type"] == "tool"] == ["paid", "refused"]
    assert Interrupt.objects.filter(quorum=2, due_at__isnull=False).count() == 2
    assert charges == ["Ines", "Lena"]
    assert sorted(Group.objects.values_list("name", flat=True)) == ["Ines", "Lena"]
    assert {"messages", "updates"} <= {*RunEvent.objects.values_list("kind", flat=True)}
    # The agent's own steps are stored below its node.
    assert Checkpoint.objects.filter(ns__startswith="agent:").exists() == bool(agent)


@pytest.mark.parametrize("is_node", [False, True])
def test_parallel_tools_of_langgraph_task_get_their_own_responses(
    hitl: GraphEnvironment, is_node: bool
) -> None:
    if is_node:
        registry.register("pays")(lambda: build_around(build_parallel_agent()))
    else:
        register_langgraph("pays", review=ReviewPolicy(quorum=1))(build_parallel_agent)
    people = [User.objects.create_superuser(name) for name in ("ann", "bob")]
    run = hitl.start("pays", INPUT)
    hitl.assert_asks(run, "Pay Ines?", "Pay Lena?")
    hitl.decide("Pay Lena?", "reject", by=people[0])
    for person in people:
        hitl.decide("Pay Ines?", "approve", by=person)
    messages = hitl.assert_finished(run)["messages"]
    assert [one["content"] for one in messages if one["type"] == "tool"] == ["paid", "refused"]
    assert sorted(charges) == ["Ines", "Lena"]
    assert Interrupt.objects.count() == 2


def test_call_of_once_in_langgraph_agent_with_exit_durability_fails_and_does_not_call_function(
    hitl: GraphEnvironment,
) -> None:
    register_langgraph("pays", durability="exit")(build_langgraph_agent)
    hitl.assert_failed(hitl.start("pays", INPUT), 'durability="exit"')
    assert charges == []


def test_registered_langgraph_agent_gets_quorum_from_policy_and_stores_its_steps_and_events(
    hitl: GraphEnvironment,
) -> None:
    policy = ReviewPolicy(quorum=2)
    register_langgraph("asks", review=policy, events=["messages", "updates"])(
        lambda: build_asking_agent([("ask", {"to": "Ines"})], ask)
    )
    run = hitl.start("asks", INPUT)
    assert hitl.interrupt(run=run).quorum == 2
    assert Checkpoint.objects.filter(thread=Run.objects.get().thread, ns="").count() > 1
    assert {"messages", "updates"} <= {*RunEvent.objects.values_list("kind", flat=True)}
