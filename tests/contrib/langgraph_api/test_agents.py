"""LangGraph's client at an agent of LangChain's, which its own engine runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph_sdk.errors import UnprocessableEntityError

from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.models import AuditEntry, Decision, Interrupt
from tests.contrib import agents
from tests.contrib.agents import done

pytestmark = pytest.mark.django_db(transaction=True)

HELP = {"messages": [{"role": "user", "content": "help"}]}
NODE = "HumanInTheLoopMiddleware.after_model"


@pytest.fixture(autouse=True)
def _agents(graphs: None) -> Iterator[None]:
    calls: list[agents.Call] = [("refund", {"order": "1"}), ("refund", {"order": "2"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls))
    register_langgraph("desk")(agents.build_supervisor)
    done.clear()
    yield
    done.clear()


def test_calls_are_decided_in_the_words_of_the_middleware(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    list(client.runs.stream(thread, "agent", input=HELP, stream_mode="updates"))
    (asked,) = client.threads.get_state(thread)["interrupts"]
    assert [each["name"] for each in asked["value"]["action_requests"]] == ["refund", "refund"]

    decisions = [
        {"type": "edit", "edited_action": {"name": "refund", "args": {"order": "8"}}},
        {"type": "reject", "message": "not the second"},
    ]
    with pytest.raises(httpx.HTTPStatusError, match="422"):
        client.runs.wait(thread, "agent", command={"resume": {"decisions": decisions[:1]}})
    assert done == []

    parts = list(
        client.runs.stream(
            thread, "agent", command={"resume": {"decisions": decisions}}, stream_mode="updates"
        )
    )
    updates = [next(iter(part.data)) for part in parts if part.event == "updates"]
    assert updates == [NODE, "tools", "model", NODE]
    assert done == ["refund 8"]
    said = client.runs.join(thread, parts[0].data["run_id"])["messages"][-1]["content"]
    assert "refunded 8" in said
    assert "not the second" in said
    entry = AuditEntry.objects.get(verb="decide")
    assert (entry.actor_label, entry.via) == ("dana", "api")
    assert Decision.objects.count() == 1


def test_an_update_of_the_state_says_where_a_graph_goes_on(client: Any) -> None:
    def build() -> Any:
        graph = StateGraph(agents.Desk)
        for name in ("a", "b", "c"):
            graph.add_node(name, lambda state, name=name: {"messages": [("ai", name)]})
        graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
        return graph.compile()

    register_langgraph("letters")(build)
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "letters", input=HELP)
    client.threads.update_state(thread, {"messages": [("ai", "by hand")]}, as_node="b")
    values = client.runs.wait(thread, "letters", input=None)
    said = [message["content"] for message in values["messages"]]
    assert said == ["help", "a", "b", "c", "by hand", "c"]


def test_the_state_of_an_agent_and_its_history_are_shown(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=HELP)
    state = client.threads.get_state(thread)
    assert state["next"] == [NODE]
    assert [each["type"] for each in state["values"]["messages"]] == ["human", "ai"]
    assert state["interrupts"][0]["id"] == Interrupt.objects.get().interrupt_id
    history = client.threads.get_history(thread)
    assert history[0] == state
    assert history[-1]["metadata"]["source"] == "input"


def test_schemas_and_graphs_below_of_an_agent_are_those_of_its_graph(client: Any) -> None:
    schemas = client.assistants.get_schemas("agent")
    assert "messages" in schemas["input_schema"]["properties"]
    nodes = [node["id"] for node in client.assistants.get_graph("agent")["nodes"]]
    assert {"model", "tools", NODE} <= set(nodes)
    assert list(client.assistants.get_subgraphs("desk")) == ["first"]


def test_the_state_of_a_graph_below_is_shown_with_what_it_asks(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "desk", input=HELP)
    state = client.threads.get_state(thread, subgraphs=True)
    below = {task["name"]: task["state"] for task in state["tasks"]}
    assert set(state["next"]) == {"first", "second"}
    assert below["first"]["next"] == [NODE]
    assert len(below["first"]["interrupts"]) == 1
    above = {question["id"] for question in state["interrupts"]}
    (approved,) = (question["id"] for question in below["first"]["interrupts"])
    (answered,) = above - {approved}
    answers = {approved: {"decisions": [{"type": "approve"}]}, answered: "fine"}
    values = client.runs.wait(thread, "desk", command={"resume": answers})
    assert "__interrupt__" not in values
    assert sorted(done) == ["ask_and_refund 2", "look_up 1", "refund 1", "supervise"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ({"goto": "tools"}, {"goto"}),
        ({"update": HELP}, {"update"}),
        ({"update": HELP, "goto": "model"}, {"goto", "update"}),
    ],
)
def test_a_command_that_would_move_an_agent_is_refused_by_name(
    client: Any, command: dict[str, Any], names: set[str]
) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=HELP)
    before = client.threads.get_state(thread)
    with pytest.raises(UnprocessableEntityError) as refused:
        client.runs.create(thread, "agent", command=command)
    errors = refused.value.response.json()["errors"]
    assert {error["pointer"] for error in errors} == {f"/command/{name}" for name in names}
    assert client.threads.get_state(thread) == before
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING
