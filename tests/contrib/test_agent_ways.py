"""Features of each way to run an agent, as listed in the table of the agents' guide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from langchain.agents import create_agent
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
    once(f"charge {to}", charge, to)
    transact(f"book {to}", book, to)
    approved = review({"title": f"Pay {to}?"}, quorum=2, key=f"pay {to}")
    return "paid" if approved else "refused"


def ask(to: str) -> str:
    """Ask whether to pay a person."""
    return str(interrupt({"title": f"Pay {to}?"}))


def build_model() -> ScriptedModel:
    return ScriptedModel(script=[[("pay", {"to": "Ines"})], [("pay", {"to": "Lena"})], "Done."])


def build_langgraph_agent() -> Any:
    return create_agent(build_model(), [pay])


def build_node() -> Any:
    graph = StateGraph(MessagesState).add_node("agent", build_langgraph_agent())
    return graph.add_edge(START, "agent")


def build_tool_node() -> Any:
    graph = StateGraph(MessagesState).add_node("tools", ToolNode([pay]))
    graph.add_node("model", lambda state: {"messages": build_model().invoke(state["messages"])})
    graph.add_conditional_edges("model", tools_condition)
    return graph.add_edge(START, "model").add_edge("tools", "model")


def build_react_agent() -> Any:
    return create_react_agent(build_model(), [pay])


@pytest.mark.parametrize("build", [build_node, build_tool_node, build_react_agent])
def test_agent_tools_call_once_transact_and_review_in_each_engine_graph(
    hitl: GraphEnvironment, build: Any
) -> None:
    registry.register("pays", events=["messages", "updates"])(build)
    people = [User.objects.create_superuser(name) for name in ("ann", "bob")]
    run = hitl.start("pays", INPUT)
    hitl.assert_asks(run, "Pay Ines?")
    for person in people:
        hitl.decide("Pay Ines?", "approve", by=person)
    hitl.assert_asks(run, "Pay Lena?")
    hitl.decide("Pay Lena?", "reject", by=people[0])
    messages = hitl.assert_finished(run)["messages"]
    assert [one["content"] for one in messages if one["type"] == "tool"] == ["paid", "refused"]
    assert Interrupt.objects.filter(quorum=2).count() == 2
    assert charges == ["Ines", "Lena"]
    assert sorted(Group.objects.values_list("name", flat=True)) == ["Ines", "Lena"]
    assert {"messages", "updates"} <= {*RunEvent.objects.values_list("kind", flat=True)}
    # The agent's own steps are stored below its node.
    assert Checkpoint.objects.filter(ns__startswith="agent:").exists() == (build is build_node)


def test_once_in_tool_of_registered_langgraph_agent_fails_and_calls_nothing(
    hitl: GraphEnvironment,
) -> None:
    register_langgraph("pays")(build_langgraph_agent)
    hitl.assert_failed(hitl.start("pays", INPUT), "run the agent in a node")
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
