"""Registered LangGraph graphs, executed by LangGraph's engine: starts, interrupts, decisions and
events.
"""

from __future__ import annotations

import operator
import threading
import typing
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from django.db.models import F
from django.test import override_settings
from django.urls import reverse
from langchain_core.runnables.config import set_config_context
from langgraph._internal import _constants as keys
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import StateGraph
from langgraph.types import Command as ForeignCommand
from langgraph.types import interrupt
from pydantic import BaseModel
from rest_framework.test import APIClient
from typing_extensions import TypedDict

from hitl_django import Command, decide, retry, start, testing
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.engine.drawing import draw_mermaid
from hitl_django.engine.errors import InvalidAnswerError, InvalidInputError, PendingInterruptsError
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Interrupt, Run, RunEvent, Thread
from hitl_django.services import (
    RunOptions,
    fork,
    run_result,
    thread_picture,
    thread_position,
    thread_state,
    update_state,
)
from hitl_django.worker import runner

from . import scripted_agents as agents
from .scripted_agents import done

pytestmark = pytest.mark.django_db

GIVEN = {"messages": [{"role": "user", "content": "help"}]}
Advance = Callable[[], int]


@pytest.fixture(autouse=True)
def only_these() -> Iterator[None]:
    done.clear()
    with registry.hide_graphs():
        yield


@pytest.fixture
def advance() -> Iterator[Advance]:
    with testing.inline() as function:
        yield function


def waiting(run: Any) -> list[Interrupt]:
    return list(Interrupt.objects.filter(run=run.id, status="pending").order_by("pk"))


def found(run: Any) -> Run:
    row = Run.objects.get(pk=run.id)
    assert not row.error, row.traceback
    return row


def result(run: Any) -> Any:
    assert found(run).state == "succeeded"
    return run_result(run.id)


def last_word(run: Any) -> str:
    return str(result(run)["messages"][-1]["content"])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_langgraph_agent_tool_call_runs_after_approval(advance: Advance, durability: Any) -> None:
    calls: list[agents.Call] = [("refund", {"order": "7"})]
    register_langgraph("agent", durability=durability)(lambda: agents.build_agent(calls))
    run = start("agent", GIVEN)
    advance()
    (pending,) = waiting(run)
    assert (pending.dialect, pending.node) == (
        "hitl_request",
        "HumanInTheLoopMiddleware.after_model",
    )
    assert done == []
    decide(pending.pk, "approve")
    advance()
    assert last_word(run) == "refunded 7"
    assert done == ["refund 7"]


@pytest.mark.parametrize(
    ("decision", "value", "said", "ran"),
    [
        ("edit", {"name": "refund", "args": {"order": "8"}}, "refunded 8", ["refund 8"]),
        ("reject", None, "not today", []),
        ("respond", "ask them", "ask them", []),
    ],
)
def test_langgraph_agent_tool_call_is_edited_rejected_or_responded_to(
    advance: Advance, decision: str, value: Any, said: str, ran: list[str]
) -> None:
    calls: list[agents.Call] = [("refund", {"order": "7"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls))
    run = start("agent", GIVEN)
    advance()
    (pending,) = waiting(run)
    if decision == "reject":
        decide(pending.pk, "reject", reason="not today")
    else:
        decide(pending.pk, decision, value)
    advance()
    assert said in last_word(run)
    assert done == ran


def test_langgraph_human_interrupt_resumes_with_accept_after_approval(advance: Advance) -> None:
    asked = {
        "action_request": {"action": "refund", "args": {"order": "1"}},
        "config": dict.fromkeys(
            ("allow_ignore", "allow_respond", "allow_edit", "allow_accept"), True
        ),
        "description": "A refund.",
    }

    def build() -> Any:
        graph = StateGraph(Steps).add_node("ask", lambda state: {"log": interrupt([asked])})
        return graph.add_edge("__start__", "ask")

    register_langgraph("human")(build)
    run = start("human", {"log": []})
    advance()
    (pending,) = waiting(run)
    assert pending.dialect == "human_interrupt"
    decide(pending.pk, "approve")
    advance()
    assert result(run) == {"log": [{"type": "accept", "args": None}]}


def test_langgraph_agent_tool_calls_in_separate_interrupts_get_separate_decisions(
    advance: Advance,
) -> None:
    calls: list[agents.Call] = [("refund", {"order": name}) for name in "1234"]
    register_langgraph("agent")(
        lambda: agents.build_agent_of_single_calls([*calls, ("look_up", {"order": "5"})])
    )
    run = start("agent", GIVEN)
    advance()
    pending_interrupts = {each.payload["args"]["order"]: each for each in waiting(run)}
    assert {each.dialect for each in pending_interrupts.values()} == {"approval_request"}
    titles = {name: each.title for name, each in pending_interrupts.items()}
    assert titles == {name: f"Refund: order {name}" for name in "1234"}
    for wrong in ({"order": 7}, {}):
        with pytest.raises(InvalidAnswerError) as caught:
            decide(pending_interrupts["2"].pk, "edit", {"name": "refund", "args": wrong})
        assert [pointer for pointer, _ in caught.value.faults] == ["/args/order"]
    decide(pending_interrupts["3"].pk, "reject", reason="not today")
    advance()
    decide(pending_interrupts["1"].pk, "approve")
    decide(pending_interrupts["2"].pk, "edit", {"name": "refund", "args": {"order": "8"}})
    advance()
    assert found(run).state == "interrupted"
    decide(pending_interrupts["4"].pk, "respond", "ask them")
    advance()
    first, second, *others = last_word(run).split("; ")
    assert (first, others[1:]) == ("refunded 1", ["ask them", "5 is there"])
    assert others[0].endswith("not today")
    assert second.endswith("refunded 8")
    assert sorted(done) == ["look_up 5", "refund 1", "refund 8"]


def test_langgraph_agent_tool_calls_in_one_interrupt_get_one_decision(advance: Advance) -> None:
    calls: list[agents.Call] = [("refund", {"order": "1"}), ("refund", {"order": "2"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls))
    run = start("agent", GIVEN)
    advance()
    (pending,) = waiting(run)
    assert len(pending.payload["action_requests"]) == 2
    decide(pending.pk, "approve")
    advance()
    assert sorted(done) == ["refund 1", "refund 2"]
    assert last_word(run) == "refunded 1; refunded 2"


@pytest.mark.parametrize("first", [0, 1])
def test_langgraph_agent_parallel_tool_interrupts_are_decided_in_any_order(
    advance: Advance, first: int
) -> None:
    calls: list[agents.Call] = [
        ("ask_and_refund", {"order": "1"}),
        ("ask_and_refund", {"order": "2"}),
    ]
    register_langgraph("agent")(lambda: agents.build_react_agent(calls))
    run = start("agent", GIVEN)
    advance()
    pending_interrupts = waiting(run)
    assert len(pending_interrupts) == 2
    for pending in (pending_interrupts[first], pending_interrupts[1 - first]):
        order = pending.payload["action_request"]["args"]["order"]
        decide(pending.pk, "respond", f"yes to {order}")
        advance()
    assert last_word(run) == "1: yes to 1; 2: yes to 2"
    assert sorted(done) == ["ask_and_refund 1", "ask_and_refund 2"]


def test_langgraph_supervisor_run_with_two_subgraph_agents_has_two_pending_interrupts(
    advance: Advance,
) -> None:
    register_langgraph("desk")(agents.build_supervisor)
    run = start("desk", GIVEN)
    advance()
    by_node = {pending.node: pending for pending in waiting(run)}
    assert set(by_node) == {"HumanInTheLoopMiddleware.after_model", "tools"}
    assert {pending.checkpoint_ns.partition(":")[0] for pending in waiting(run)} == {
        "first",
        "second",
    }
    decide(by_node["tools"].pk, "respond", "fine")
    advance()
    assert done == ["supervise", "look_up 1", "ask_and_refund 2"][:1] + done[1:]
    decide(by_node["HumanInTheLoopMiddleware.after_model"].pk, "approve")
    advance()
    assert last_word(run)
    assert sorted(done) == ["ask_and_refund 2", "look_up 1", "refund 1", "supervise"]


@pytest.mark.parametrize("build", [agents.build_agent, agents.build_agent_of_single_calls])
def test_langgraph_tool_call_with_nul_is_shown_escaped_and_runs_unchanged(
    advance: Advance, build: Callable[..., Any]
) -> None:
    calls: list[agents.Call] = [("refund", {"order": "7\0"})]
    register_langgraph("agent")(lambda: build(calls))
    run = start("agent", GIVEN)
    advance()
    (pending,) = waiting(run)
    assert "7\\x00" in repr(pending.payload).replace("\\\\", "\\")
    decide(pending.pk, "approve")
    advance()
    assert done == ["refund 7\0"]


def test_langgraph_functional_graph_resumes_after_interrupts_in_task_and_entrypoint(
    advance: Advance,
) -> None:
    register_langgraph("sell")(agents.build_functional)
    run = start("sell", "77")
    advance()
    (pending,) = waiting(run)
    assert (pending.node, pending.payload) == ("sign", "who signs 77?")
    decide(pending.pk, "respond", "olga")
    advance()
    (pending,) = waiting(run)
    assert (pending.node, pending.payload) == ("sell", {"cents": 2})
    decide(pending.pk, "respond", "sure")
    advance()
    assert result(run) == {"cents": 2, "signed": "signed by olga", "sure": "sure"}
    assert done == ["price 77"]


def test_langgraph_node_with_four_interrupts_resumes_after_each_response(advance: Advance) -> None:
    register_langgraph("often")(agents.ask_for(4))
    run = start("often", GIVEN)
    for number in range(4):
        advance()
        (pending,) = waiting(run)
        assert (pending.payload, pending.index) == (f"{number}?", number)
        decide(pending.pk, "respond", number)
    advance()
    assert last_word(run) == "0 1 2 3"


def test_langgraph_agent_runs_tool_that_is_only_async(advance: Advance) -> None:
    calls: list[agents.Call] = [("look_up_later", {"order": "3"}), ("refund", {"order": "3"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls, agents.look_up_later))
    run = start("agent", GIVEN)
    advance()
    (pending,) = waiting(run)
    decide(pending.pk, "approve")
    advance()
    assert last_word(run) == "3 was there; refunded 3"
    assert sorted(done) == ["look_up_later 3", "refund 3"]


def test_langgraph_thread_accepts_a_second_input_after_its_first_run(advance: Advance) -> None:
    register_langgraph("often")(agents.ask_for(1))
    run = start("often", GIVEN, thread_id="talk")
    for number, said in enumerate(("one", "two")):
        if number:
            run = start("often", {"messages": [("user", "more")]}, thread_id="talk")
        advance()
        (pending,) = waiting(run)
        decide(pending.pk, "respond", said)
        advance()
    assert [message["content"] for message in result(run)["messages"]] == [
        "help", "one", "more", "two"
    ]  # fmt: skip


@pytest.mark.parametrize("given", [{"message": []}, ["help"]])
def test_langgraph_run_with_unknown_or_mistyped_input_raises_invalid_input_error(
    given: Any,
) -> None:
    register_langgraph("often")(agents.ask_for(1))
    with pytest.raises(InvalidInputError):
        start("often", given)
    assert not Run.objects.exists()


class Steps(TypedDict, total=False):
    """What has run."""

    log: Annotated[list[str], operator.add]


def steps(*names: str, **how: Any) -> Any:
    """Return a graph with these nodes in sequence."""
    graph = StateGraph(Steps)
    for before, name in pairwise(("__start__", *names)):

        def log(state: Steps, name: str = name) -> Steps:
            done.append(name)
            return {"log": [name]}

        graph.add_node(name, log).add_edge(before, name)
    return graph.compile(**how)


@pytest.mark.parametrize("stop", ["interrupt_before", "interrupt_after"])
def test_langgraph_compiled_breakpoint_is_pending_until_approved(
    advance: Advance, stop: str
) -> None:
    at = "b" if stop == "interrupt_before" else "a"
    register_langgraph("steps")(lambda: steps("a", "b", "c", **{stop: [at]}))
    run = start("steps", {"log": []})
    for _ in range(2):
        advance()
        (pending,) = waiting(run)
        assert (pending.kind, done) == ("breakpoint", ["a"])
        # Simulates a worker that was killed between its last step and the pause.
        Run.objects.filter(pk=run.id).update(state="queued")
        testing.run_ids.append(str(run.id))
    testing.run_ids.clear()
    Run.objects.filter(pk=run.id).update(state="interrupted")
    decide(pending.pk, "approve")
    advance()
    assert result(run) == {"log": ["a", "b", "c"]}
    assert done == ["a", "b", "c"]


class Plain(typing.TypedDict, total=False):
    """Of what Pydantic makes no schema before Python 3.12."""

    log: Annotated[list[str], operator.add]


def build_plain() -> Any:
    graph = StateGraph(Plain).add_node("a", lambda state: {"log": ["a"]})
    return graph.add_edge("__start__", "a").compile()


def build_signed() -> Any:
    @entrypoint()
    def sign(given: Plain) -> Plain:
        return {"log": [*given["log"], "signed"]}

    return sign


@pytest.mark.parametrize(("build", "came"), [(build_plain, "a"), (build_signed, "signed")])
def test_langgraph_graph_without_input_schema_has_start_form_and_can_be_started(
    advance: Advance, admin_client: Any, build: Any, came: str
) -> None:
    register_langgraph("plain", title="Plain")(build)
    run = start("plain", {"log": ["given"]})
    advance()
    assert result(run)["log"] == ["given", came]
    if build is build_plain:
        with pytest.raises(InvalidInputError, match="Unknown input fields: nonsense"):
            start("plain", {"nonsense": 1})
    page = admin_client.get(reverse("admin:hitl_django_run_start_graph", args=["plain"]))
    assert page.status_code == 200


@pytest.mark.parametrize("stop", ["interrupt_before", "interrupt_after"])
def test_langgraph_breakpoint_in_options_of_a_run_applies_only_to_this_run(
    advance: Advance, stop: str
) -> None:
    at = ["b"] if stop == "interrupt_before" else ["a"]
    register_langgraph("steps")(lambda: steps("a", "b"))
    run = start("steps", {"log": []}, options=RunOptions(**{stop: at}))  # type: ignore[arg-type]
    advance()
    (pending,) = waiting(run)
    assert (pending.kind, done) == ("breakpoint", ["a"])
    decide(pending.pk, "approve")
    advance()
    assert result(run) == {"log": ["a", "b"]}
    other = start("steps", {"log": []})
    advance()
    assert result(other) == {"log": ["a", "b"]}


@pytest.mark.parametrize("as_node", ["a", "b", "c"])
def test_state_after_update_state_with_command_matches_langgraph(
    advance: Advance, as_node: str
) -> None:
    register_langgraph("steps")(lambda: steps("a", "b", "c"))
    run = start("steps", {"log": []})
    advance()
    theirs, config = steps("a", "b", "c", checkpointer=InMemorySaver()), {"thread_id": "t"}
    theirs.invoke({"log": []}, {"configurable": config})
    command = {"update": {"log": ["told"]}, "goto": ["a", "c"]}
    theirs.update_state({"configurable": config}, ForeignCommand(**command), as_node)
    update_state(run.thread_id, Command(**command), as_node=as_node)
    expected = theirs.get_state({"configurable": config})
    state = thread_state(run.thread_id)
    assert state is not None
    assert (state.values, sorted(state.next)) == (expected.values, sorted(expected.next))


def test_langgraph_subgraph_breakpoint_is_pending_until_approved(advance: Advance) -> None:
    def build() -> Any:
        below = steps("a", "b", interrupt_before=["b"])
        return StateGraph(Steps).add_node("below", below).add_edge("__start__", "below")

    register_langgraph("steps")(build)
    run = start("steps", {"log": []})
    advance()
    (pending,) = waiting(run)
    assert (pending.kind, pending.node, done) == ("breakpoint", "below", ["a"])
    decide(pending.pk, "approve")
    advance()
    assert result(run)["log"][-2:] == ["a", "b"]
    assert done == ["a", "b"]


def test_langgraph_run_with_unstorable_state_is_parked_with_the_path(advance: Advance) -> None:
    def build() -> Any:
        graph = StateGraph(Steps).add_node("a", lambda state: {"log": [threading.Lock()]})
        return graph.add_edge("__start__", "a")

    register_langgraph("lock")(build)
    run = start("lock", {"log": []})
    advance()
    row = Run.objects.get(pk=run.id)
    assert (row.state, "Can't store $.log[0]" in row.error) == ("parked", True)


def test_langgraph_failed_run_is_retried_from_its_failed_node(advance: Advance) -> None:
    def flaky(state: Steps) -> Steps:
        done.append("flaky")
        if done.count("flaky") == 1:
            raise OSError("down")
        return {"log": ["flaky"]}

    def build() -> Any:
        graph = StateGraph(Steps).add_node("a", lambda state: done.append("a") or {"log": ["a"]})
        graph.add_node("flaky", flaky).add_edge("__start__", "a").add_edge("a", "flaky")
        return graph

    register_langgraph("flaky")(build)
    run = start("flaky", {"log": []})
    advance()
    row = Run.objects.get(pk=run.id)
    assert (row.state, row.error) == ("failed", "OSError: down")
    retry(run.id)
    advance()
    Run.objects.filter(pk=run.id).update(error="")
    assert result(run) == {"log": ["a", "flaky"]}
    assert done == ["a", "flaky", "flaky"]


def test_langgraph_run_in_endless_loop_fails_with_graph_recursion_error(advance: Advance) -> None:
    def build() -> Any:
        graph = StateGraph(Steps).add_node("a", lambda state: {"log": ["a"]})
        return graph.add_edge("__start__", "a").add_edge("a", "a")

    register_langgraph("loop")(build)
    run = start("loop", {"log": []})
    with override_settings(HITL={**settings.HITL, "RECURSION_LIMIT": 3}):
        advance()
    row = Run.objects.get(pk=run.id)
    assert (row.state, row.error.partition(":")[0]) == ("failed", "GraphRecursionError")


def test_langgraph_run_on_draining_worker_is_requeued_between_steps(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    controls: list[runner.RunControl] = []

    class Control(runner.RunControl):
        def __init__(self) -> None:
            super().__init__()
            controls.append(self)

    def stop(state: Steps) -> Steps:
        controls[-1].request_drain("test")
        return {"log": ["stop"]}

    def build() -> Any:
        graph = StateGraph(Steps).add_node("stop", stop)
        graph.add_node("b", lambda state: {"log": ["b"]})
        return graph.add_edge("__start__", "stop").add_edge("stop", "b")

    monkeypatch.setattr(runner, "RunControl", Control)
    register_langgraph("slow")(build)
    run = start("slow", {"log": []})
    testing.run_ids.clear()
    runner.advance(str(run.id))
    assert Run.objects.get(pk=run.id).state == "queued"
    assert advance() == 1
    assert result(run) == {"log": ["stop", "b"]}


@pytest.mark.django_db(transaction=True)
def test_langgraph_run_whose_lease_was_taken_over_writes_no_further_checkpoints(
    advance: Advance,
) -> None:
    def build() -> Any:
        def seize(state: Steps) -> Steps:
            Thread.objects.update(epoch=F("epoch") + 1, lease_owner="another")
            return {"log": ["seize"]}

        graph = StateGraph(Steps).add_node("seize", seize)
        graph.add_node("b", lambda state: done.append("b") or {"log": ["b"]})
        return graph.add_edge("__start__", "seize").add_edge("seize", "b")

    register_langgraph("seized")(build)
    run = start("seized", {"log": []})
    before = set(Checkpoint.objects.values_list("pk", flat=True))
    advance()
    assert Run.objects.get(pk=run.id).state == "running"
    assert set(Checkpoint.objects.filter(ns="", step__gt=0).values_list("pk", flat=True)) <= before
    assert done == []


class RecordedAnswers(list[Any]):
    """Responses that record the arguments of calls."""

    seen: list[Any]

    def __getitem__(self, index: Any) -> Any:
        self.seen.append(index)
        return super().__getitem__(index)

    def append(self, value: Any) -> None:
        self.seen.append(value)
        super().append(value)


@pytest.mark.parametrize("schema", [None, {"type": "string"}, str])
@pytest.mark.parametrize("answers", [["yes"], []], ids=["of the task", "of the run"])
def test_langgraph_passes_payload_of_a_resumed_interrupt_to_no_callback(
    schema: Any, answers: list[str]
) -> None:
    """A failure means that a new hook can replace reading the frame of ``interrupt``."""
    seen: list[Any] = []
    resume = RecordedAnswers(answers)
    resume.seen = seen

    def record(returned: Any) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seen.extend([*args, *options.values()])
            return returned

        return call

    config: Any = {
        keys.CONFIG_KEY_SCRATCHPAD: SimpleNamespace(
            interrupt_counter=record(0), get_null_resume=record("yes"), resume=resume
        ),
        keys.CONFIG_KEY_SEND: record(None),
        keys.CONFIG_KEY_CHECKPOINT_NS: "ask:1",
    }
    with set_config_context({"configurable": config}) as context:
        assert context.run(lambda: interrupt("zqpayloadqz", response_schema=schema)) == "yes"
    assert [(keys.RESUME, ["yes"])] in seen
    assert "zqpayloadqz" not in repr(seen)


def test_langgraph_run_resumed_with_changed_interrupt_is_parked(
    advance: Advance,
) -> None:
    asks = ["refund 1?"]

    def build() -> Any:
        def ask(state: Steps) -> Steps:
            return {"log": [interrupt(asks[0])]}

        return StateGraph(Steps).add_node("ask", ask).add_edge("__start__", "ask")

    register_langgraph("fickle")(build)
    run = start("fickle", {"log": []})
    advance()
    (pending,) = waiting(run)
    asks[0] = "refund 1000?"
    decide(pending.pk, "respond", "yes")
    advance()
    row = Run.objects.get(pk=run.id)
    assert row.state == "parked"
    assert row.error.startswith(
        "InterruptChangedError: The node asked something different after it was answered "
        "(interrupt 1 of its task)."
    )
    asks[0] = "refund 1?"
    retry(run.id)
    advance()
    Run.objects.filter(pk=run.id).update(error="")
    assert result(run) == {"log": ["yes"]}


def test_langgraph_run_with_interrupt_in_subgraph_without_saver_is_parked(advance: Advance) -> None:
    def build() -> Any:
        def ask(state: Steps) -> Steps:
            return {"log": [interrupt("?")]}

        below = StateGraph(Steps).add_node("ask", ask).add_edge("__start__", "ask")
        graph = StateGraph(Steps).add_node("below", below.compile(checkpointer=False))
        return graph.add_edge("__start__", "below")

    # With "sync", LangGraph 1.2 itself fails if a subgraph stores nothing.
    register_langgraph("lost", durability="async")(build)
    run = start("lost", {"log": []})
    advance()
    row = Run.objects.get(pk=run.id)
    assert (row.state, waiting(run)) == ("parked", [])
    assert "below" in row.error


def test_langgraph_run_stores_its_stream_as_run_events(advance: Advance) -> None:
    register_langgraph("steps", events=("updates", "values"))(lambda: steps("a", "b"))
    run = start("steps", {"log": []})
    advance()
    told = RunEvent.objects.filter(run=run.id).order_by("seq").values_list("kind", "data")
    assert [data for kind, data in told if kind == "updates"] == [
        {"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}
    ]  # fmt: skip
    assert [kind for kind, _ in told][-1] == "succeeded"


def test_langgraph_thread_state_position_and_picture_show_the_paused_node(advance: Advance) -> None:
    register_langgraph("agent")(lambda: agents.build_agent([("refund", {"order": "7"})]))
    run = start("agent", GIVEN)
    advance()
    state = thread_state(run.thread_id)
    assert state is not None
    assert state.next == ("HumanInTheLoopMiddleware.after_model",)
    assert [message["type"] for message in state.values["messages"]] == ["human", "ai"]
    where = thread_position(run.thread_id)
    assert where.paused == {"HumanInTheLoopMiddleware.after_model"}
    assert where.visited >= {"model"}
    assert "tools" in where.next
    assert "HumanInTheLoop" in thread_picture(run.thread_id)
    assert "tools -.-> model" in draw_mermaid(registry.get_graph("agent").graph).replace(
        "&nbsp;", ""
    )


def test_langgraph_fork_runs_later_nodes_again_from_an_earlier_checkpoint(advance: Advance) -> None:
    register_langgraph("steps")(lambda: steps("a", "b"))
    run = start("steps", {"log": []})
    advance()
    after_a = Checkpoint.objects.get(thread__thread_id=run.thread_id, step=1)
    again = fork(run.thread_id, after_a.checkpoint_id)
    advance()
    assert result(again) == {"log": ["a", "b"]}
    assert done == ["a", "b", "b"]
    changed = fork(run.thread_id, after_a.checkpoint_id, values={"log": ["by hand"]}, as_node="a")
    advance()
    assert result(changed) == {"log": ["a", "by hand", "b"]}


def test_langgraph_interrupted_run_of_graph_with_removed_node_is_parked(advance: Advance) -> None:
    register_langgraph("steps")(lambda: steps("a", "b", interrupt_before=["b"]))
    run = start("steps", {"log": []})
    advance()
    (pending,) = waiting(run)
    registry.unregister("steps")
    register_langgraph("steps")(lambda: steps("a", "c"))
    decide(pending.pk, "approve")
    advance()
    row = Run.objects.get(pk=run.id)
    assert (row.state, "node 'b' was removed" in row.error) == ("parked", True)


def test_langgraph_input_during_interrupt_raises_error_unless_on_pending_is_discard(
    advance: Advance,
) -> None:
    register_langgraph("often")(agents.ask_for(1))
    start("often", GIVEN, thread_id="talk")
    advance()
    with pytest.raises(PendingInterruptsError):
        start("often", GIVEN, thread_id="talk")
    run = start("often", GIVEN, thread_id="talk", on_pending="discard")
    advance()
    (pending,) = waiting(run)
    decide(pending.pk, "respond", "yes")
    advance()
    assert last_word(run) == "yes"


def test_langgraph_input_with_on_pending_wait_runs_after_the_pending_interrupt(
    advance: Advance,
) -> None:
    register_langgraph("often")(agents.ask_for(1))
    first = start("often", GIVEN, thread_id="talk")
    advance()
    later = start("often", GIVEN, thread_id="talk", on_pending="wait")
    assert later.state == "waiting"
    for run, answer in ((first, "yes"), (later, "no")):
        (pending,) = waiting(run)
        decide(pending.pk, "respond", answer)
        advance()
    assert [last_word(run) for run in (first, later)] == ["yes", "no"]
    assert len(result(later)["messages"]) == 2 * len(result(first)["messages"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("awaited", [False, True])
def test_langgraph_nodes_leave_no_database_connection_open(advance: Advance, awaited: bool) -> None:
    opened: list[Any] = []

    def count(state: Steps) -> Steps:
        opened.append(connections["default"])
        return {"log": [str(Run.objects.count())]}

    async def wait(state: Steps) -> Steps:
        return {}

    def build() -> Any:
        graph = StateGraph(Steps).add_node("count", count).add_edge("__start__", "count")
        return graph.add_node("b", wait).add_edge("count", "b") if awaited else graph

    register_langgraph("counting")(build)
    run = start("counting", {"log": []})
    advance()
    assert result(run) == {"log": ["1"]}
    assert [one.connection for one in opened if one is not connections["default"]] == [None]


@pytest.mark.parametrize("keeps", [None, True], ids=["a call", "one history"])
def test_langgraph_subgraph_with_two_interrupts_is_shown_as_paused_and_resumes_after_each(
    advance: Advance, keeps: Any
) -> None:
    def ask(state: Steps) -> Steps:
        return {"log": [interrupt("one?"), interrupt("two?")]}

    def build() -> Any:
        below = StateGraph(Steps).add_node("ask", ask).add_edge("__start__", "ask")
        graph = StateGraph(Steps).add_node("below", below.compile(checkpointer=keeps))
        return graph.add_edge("__start__", "below")

    register_langgraph("deep")(build)
    run = start("deep", {"log": []})
    for said in ("1", "2"):
        advance()
        (pending,) = waiting(run)
        assert pending.node == "ask"
        assert thread_position(run.thread_id).paused == {"below", "below:ask"}
        decide(pending.pk, "respond", said)
    advance()
    assert result(run)["log"][-2:] == ["1", "2"]


def test_langgraph_state_class_in_package_of_the_graph_is_stored_and_resumed(
    advance: Advance,
) -> None:
    def hold(state: Held) -> Held:
        return {"held": Sum(cents=state["held"].cents + interrupt("more?"))}

    register_langgraph("held")(
        lambda: StateGraph(Held).add_node("hold", hold).add_edge("__start__", "hold")
    )
    run = start("held", {"held": Sum(cents=1)})
    advance()
    (pending,) = waiting(run)
    decide(pending.pk, "respond", 2)
    advance()
    assert result(run) == {"held": {"cents": 3}}


class Sum(BaseModel):
    """A class of the graph's package."""

    cents: int


class Held(TypedDict, total=False):
    """A state that holds it."""

    held: Sum


def test_langgraph_run_is_started_read_and_decided_over_the_api(advance: Advance) -> None:
    calls: list[agents.Call] = [("refund", {"order": "7"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls))
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("ada"))

    refused = client.post("/hitl/api/v1/runs/", {"graph": "agent", "input": {"no": 1}}, "json")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/input/no")
    made = client.post("/hitl/api/v1/runs/", {"graph": "agent", "input": GIVEN}, "json")
    assert made.status_code == 202
    assert "tools" in client.get("/hitl/api/v1/graphs/agent/").json()["mermaid"]
    advance()
    (listed,) = client.get("/hitl/api/v1/interrupts/").json()["results"]
    asked = client.get(reverse("hitl_django:interrupt", args=[listed["id"]]))
    assert asked.json()["payload"]["action_requests"][0]["name"] == "refund"
    decided = client.post(
        reverse("hitl_django:decisions", args=[listed["id"]]),
        {"type": "approve"},
        "json",
        headers={"If-Match": asked["ETag"]},
    )
    assert decided.status_code == 202
    advance()
    assert Run.objects.get().state == "succeeded"


def test_langgraph_agent_fork_with_new_message_runs_from_the_message(advance: Advance) -> None:
    calls: list[agents.Call] = [("refund", {"order": "7"})]
    register_langgraph("agent")(lambda: agents.build_agent(calls))
    run = start("agent", GIVEN)
    advance()
    newest = Checkpoint.objects.filter(thread__thread_id=run.thread_id).latest("checkpoint_id")
    said = {"role": "tool", "content": "by hand", "tool_call_id": "0-0"}
    again = fork(run.thread_id, newest.checkpoint_id, values={"messages": [said]}, as_node="tools")
    advance()
    assert last_word(again) == "by hand"
    with pytest.raises(InvalidInputError):
        fork(run.thread_id, newest.checkpoint_id, values={"message": []}, as_node="tools")
    assert done == []
