"""LangGraph's client with a LangChain agent, executed by LangGraph's engine."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from langgraph_sdk.errors import UnprocessableEntityError

from hitl_django import register
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.models import AuditEntry, Decision, Interrupt
from tests.compat.engines import LANGGRAPH, OURS
from tests.contrib import scripted_agents as agents
from tests.contrib.scripted_agents import done

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


def test_langgraph_client_resumes_middleware_interrupt_with_decisions_per_tool_call(
    client: Any,
) -> None:
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


def test_langgraph_client_update_state_as_node_runs_the_successors_of_the_node(client: Any) -> None:
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


def test_langgraph_client_reads_state_and_history_of_an_agent_thread(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=HELP)
    state = client.threads.get_state(thread)
    assert state["next"] == [NODE]
    assert [each["type"] for each in state["values"]["messages"]] == ["human", "ai"]
    assert state["interrupts"][0]["id"] == Interrupt.objects.get().interrupt_id
    history = client.threads.get_history(thread)
    assert history[0] == state
    assert history[-1]["metadata"]["source"] == "input"


def test_langgraph_client_reads_schemas_graph_and_subgraphs_of_an_agent(client: Any) -> None:
    schemas = client.assistants.get_schemas("agent")
    assert "messages" in schemas["input_schema"]["properties"]
    nodes = [node["id"] for node in client.assistants.get_graph("agent")["nodes"]]
    assert {"model", "tools", NODE} <= set(nodes)
    assert list(client.assistants.get_subgraphs("desk")) == ["first"]


def test_langgraph_client_reads_and_resumes_interrupts_of_subgraph_tasks(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "desk", input=HELP)
    state = client.threads.get_state(thread, subgraphs=True)
    below = {task["name"]: task["state"] for task in state["tasks"]}
    assert set(state["next"]) == {"first", "second"}
    assert below["first"]["next"] == [NODE]
    assert len(below["first"]["interrupts"]) == 1
    above = {interrupt["id"] for interrupt in state["interrupts"]}
    (approved,) = (interrupt["id"] for interrupt in below["first"]["interrupts"])
    (answered,) = above - {approved}
    answers = {approved: {"decisions": [{"type": "approve"}]}, answered: "fine"}
    values = client.runs.wait(thread, "desk", command={"resume": answers})
    assert "__interrupt__" not in values
    assert sorted(done) == ["ask_and_refund 2", "look_up 1", "refund 1", "supervise"]


def build_route() -> StateGraph[Any]:
    builder = StateGraph(Route)
    for name in ("first", "second", "third"):
        builder.add_node(name, lambda state, name=name: {"log": [f"{name} {state.get('note')}"]})
    builder.add_node("ask", lambda state: {"log": [interrupt("Continue?")]})
    builder.add_edge(START, "first").add_edge("first", "second").add_edge("third", "ask")
    return builder


class Route(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str


@pytest.mark.parametrize(
    "command",
    [
        {"goto": "second"},
        {"goto": ["first", "third"]},
        {"update": {"note": "told"}},
        {"update": {"log": ["told"], "note": "told"}, "goto": "first"},
        {"goto": [{"node": "second", "input": {"note": "of its own"}}, "second"]},
    ],
)
@pytest.mark.parametrize("begin", [{"log": ["in"]}, {"goto": "third"}])
def test_state_after_goto_and_update_commands_of_langgraph_client_matches_langgraph(
    client: Any, command: dict[str, Any], begin: dict[str, Any]
) -> None:
    register_langgraph("route")(lambda: build_route().compile())
    theirs = build_route().compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    thread = client.threads.create()["thread_id"]

    theirs.invoke({"log": ["in"]}, config)
    client.runs.wait(thread, "route", input={"log": ["in"]})
    for each in ([begin] if "goto" in begin else []) + [command]:
        goto = each.get("goto", ())
        targets = goto if isinstance(goto, list) else [goto] if goto else []
        sent = [
            Send(one["node"], one["input"]) if isinstance(one, dict) else one for one in targets
        ]
        theirs.invoke(Command(update=each.get("update"), goto=sent), config)
        client.runs.wait(thread, "route", command=each)
    if theirs.get_state(config).interrupts:
        # LangGraph's state of a paused thread doesn't include the writes of the command.
        theirs.invoke(Command(resume="yes"), config)
        client.runs.wait(thread, "route", command={"resume": "yes"})
    expected, found = theirs.get_state(config), client.threads.get_state(thread)
    assert found["values"] == expected.values
    assert found["next"] == list(expected.next)


@pytest.mark.parametrize("add", [register_langgraph, register])
def test_input_at_checkpoint_of_pending_node_discards_the_node_as_langgraph_does(
    client: Any, add: Any
) -> None:
    engine = OURS if add is register else LANGGRAPH
    add("paused")(lambda: build_paused(engine))
    theirs = build_paused(LANGGRAPH).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    thread = client.threads.create()["thread_id"]

    for values in ({"log": ["in"]}, {"log": ["again"]}):
        theirs.invoke(values, config)
    client.runs.wait(thread, "paused", input={"log": ["in"]})
    asked = client.threads.get_state(thread)["checkpoint"]
    client.runs.wait(thread, "paused", input={"log": ["lost"]}, multitask_strategy="interrupt")
    client.runs.wait(thread, "paused", input={"log": ["again"]}, checkpoint=asked)
    expected, found = theirs.get_state(config), client.threads.get_state(thread)
    assert (found["values"], found["next"]) == (expected.values, list(expected.next))
    assert expected.values == {"log": ["in", "first", "again", "first"]}


def build_paused(engine: Any) -> Any:
    graph = engine.StateGraph(Route)
    graph.add_node("first", lambda state: {"log": ["first"]})
    graph.add_node("ask", lambda state: {"log": [engine.interrupt("Continue?")]})
    return graph.add_edge(engine.START, "first").add_edge("first", "ask")


def test_langgraph_client_update_and_goto_command_supersedes_interrupt_and_restarts_agent(
    client: Any,
) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=HELP)
    asked = Interrupt.objects.get()
    values = client.runs.wait(thread, "agent", command={"update": HELP, "goto": "model"})
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "human", "ai"]
    assert [message["id"] for message in values["messages"] if not message["id"]] == []
    asked.refresh_from_db()
    assert asked.status == Interrupt.Status.SUPERSEDED
    assert done == []


@pytest.mark.parametrize("command", [{"goto": "nowhere"}, {"update": {"nonsense": 1}}])
def test_langgraph_client_command_with_unknown_node_or_key_returns_422_and_changes_no_state(
    client: Any, command: dict[str, Any]
) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=HELP)
    before = client.threads.get_state(thread)
    with pytest.raises(UnprocessableEntityError) as refused:
        client.runs.create(thread, "agent", command=command)
    assert "unknown" in refused.value.response.text
    assert client.threads.get_state(thread) == before
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING
