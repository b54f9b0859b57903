"""Article on interrupts as control signals: propagation, scopes, breakpoints, idempotency."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
import xxhash

from hitl_django import START, Command, StateGraph, interrupt, once
from hitl_django.engine.errors import (
    GraphBubbleUp,
    GraphInterrupt,
    NoSaverError,
    UnknownInterruptError,
)
from hitl_django.engine.types import Interrupt, RetryPolicy


def values(pending_interrupts: Any) -> list[Any]:
    return [interrupt.value for interrupt in pending_interrupts]


class Reviewed(TypedDict, total=False):
    status: str


def single(node: Any, checkpointer: Any, schema: Any, **options: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("node_fn", node, **options)
    builder.add_edge(START, "node_fn")
    return builder.compile(checkpointer=checkpointer)


def test_interrupted_node_resumes_with_the_resume_value_as_return_value(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Dynamic interrupts"."""

    def node_fn(state: Reviewed) -> Any:
        feedback = interrupt("需要人工审核")
        if feedback == "approved":
            return {"status": "approved"}
        return None

    graph = single(node_fn, checkpointer, Reviewed)
    assert values(graph.invoke({"status": "new"}, config)["__interrupt__"]) == ["需要人工审核"]
    assert graph.invoke(Command(resume="approved"), config) == {"status": "approved"}


def test_interrupt_in_node_with_retry_policy_is_not_retried_and_leaves_no_task_error(
    checkpointer: Any, config: Any
) -> None:
    """Follow "GraphInterrupt is a control signal".

    In the article GraphBubbleUp is an Exception; here it is a BaseException, so that no
    ``except Exception`` in a node takes the pause for a failure.
    """
    entered = []

    def node_fn(state: Reviewed) -> Any:
        entered.append(1)
        return {"status": interrupt("?")}

    assert issubclass(GraphInterrupt, GraphBubbleUp)
    assert not issubclass(GraphBubbleUp, Exception)
    patient = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=lambda e: True)
    graph = single(node_fn, checkpointer, Reviewed, retry_policy=patient)
    graph.invoke({"status": "new"}, config)
    assert len(entered) == 1
    assert graph.get_state(config).tasks[0].error is None


class Plan(TypedDict, total=False):
    plan: str
    rounds: int
    auto_approved: bool
    done: bool


def reviewed_plan(**compiled: Any) -> Any:
    def planner(state: Plan) -> Any:
        return {"rounds": state.get("rounds", 0) + 1}

    def human_feedback_node(state: Plan) -> Any:
        if not state.get("auto_approved"):
            feedback = interrupt("请审核方案")
            if feedback == "EDIT":
                return Command(goto="planner")
            elif feedback == "APPROVED":  # noqa: RET505 - as in the article
                return Command(goto="execute")
        return None

    builder = StateGraph(Plan)
    builder.add_node("planner", planner)
    builder.add_node("human_feedback", human_feedback_node)
    builder.add_node("execute", lambda state: {"done": True})
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "human_feedback")
    return builder.compile(**compiled)


def test_plan_review_node_repeats_until_the_response_approves(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Human review"."""
    graph = reviewed_plan(checkpointer=checkpointer)
    graph.invoke({"plan": "p"}, config)
    assert values(graph.invoke(Command(resume="EDIT"), config)["__interrupt__"]) == ["请审核方案"]
    final = graph.invoke(Command(resume="APPROVED"), config)
    assert final == {"plan": "p", "rounds": 2, "done": True}


def test_interrupt_in_branch_not_taken_does_not_pause_the_run(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Human review": the interrupt is raised in a branch."""
    graph = reviewed_plan(checkpointer=checkpointer)
    final = graph.invoke({"plan": "p", "auto_approved": True}, config)
    assert final == {"plan": "p", "rounds": 1, "auto_approved": True}


def test_run_with_breakpoints_and_interrupt_pauses_at_each_of_the_three_stops(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Static interrupts", "should_interrupt" and "Combined".

    A breakpoint that was passed doesn't stop the run again at the same versions.
    """
    graph = reviewed_plan(
        checkpointer=checkpointer,
        interrupt_before=["human_feedback"],
        interrupt_after=["planner"],
    )
    stopped = graph.invoke({"plan": "p"}, config)
    assert "__interrupt__" not in stopped
    assert graph.get_state(config).next == ("human_feedback",)
    asked = graph.invoke(None, config)
    assert values(asked["__interrupt__"]) == ["请审核方案"]
    assert graph.invoke(Command(resume="APPROVED"), config)["done"] is True


class Both(TypedDict, total=False):
    x: str
    y: str


def two_interrupts(checkpointer: Any) -> Any:
    def node_a(state: Both) -> Any:
        x = interrupt("需要 X")
        return {"x": x}

    def node_b(state: Both) -> Any:
        y = interrupt("需要 Y")
        return {"y": y}

    builder = StateGraph(Both)
    builder.add_node("nodeA", node_a)
    builder.add_node("nodeB", node_b)
    builder.add_edge(START, "nodeA")
    builder.add_edge(START, "nodeB")
    return builder.compile(checkpointer=checkpointer)


def test_resume_map_keyed_by_hash_of_task_namespace_resumes_both_interrupts(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Resuming at several interrupts": an id is the hash of its task's namespace."""
    compiled = two_interrupts(checkpointer)
    asked = compiled.invoke({}, config)["__interrupt__"]
    assert values(asked) == ["需要 X", "需要 Y"]

    hashes = {
        task.name: xxhash.xxh3_128_hexdigest(f"{task.name}:{task.id}".encode())
        for task in compiled.get_state(config).tasks
    }
    assert [interrupt.id for interrupt in asked] == [hashes["nodeA"], hashes["nodeB"]]
    result = compiled.invoke(
        Command(resume={hashes["nodeA"]: "valueX", hashes["nodeB"]: "valueY"}), config=config
    )
    assert result == {"x": "valueX", "y": "valueY"}


def test_resume_value_without_id_for_two_pending_interrupts_raises_unknown_interrupt_error(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Command(resume=...)": which question would it answer?"""
    compiled = two_interrupts(checkpointer)
    compiled.invoke({}, config)
    with pytest.raises(RuntimeError, match="multiple pending interrupts") as caught:
        compiled.invoke(Command(resume="valueX"), config=config)
    assert isinstance(caught.value, UnknownInterruptError)
    assert len(compiled.get_state(config).interrupts) == 2


def test_resume_map_with_id_of_the_second_interrupt_leaves_the_first_pending(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Scope of a resume": the one that wasn't answered goes on waiting."""
    compiled = two_interrupts(checkpointer)
    first, second = compiled.invoke({}, config)["__interrupt__"]
    waiting = compiled.invoke(Command(resume={second.id: "valueY"}), config)
    assert values(waiting["__interrupt__"]) == ["需要 X"]
    assert values(compiled.get_state(config).interrupts) == ["需要 X"]
    result = compiled.invoke(Command(resume={first.id: "valueX"}), config)
    assert result == {"x": "valueX", "y": "valueY"}


class Conditional(TypedDict, total=False):
    requires_human: bool
    decision: str


@pytest.mark.parametrize("requires_human", [True, False])
def test_conditional_interrupt_pauses_only_if_the_state_requires_human_review(
    checkpointer: Any, config: Any, requires_human: bool
) -> None:
    """Follow "Conditional interrupts"."""

    def node_fn(state: Conditional) -> Any:
        if state["requires_human"]:
            decision = interrupt("需要人工决策")
            state["decision"] = decision
        return state

    graph = single(node_fn, checkpointer, Conditional)
    result = graph.invoke({"requires_human": requires_human}, config)
    if requires_human:
        assert values(result["__interrupt__"]) == ["需要人工决策"]
        result = graph.invoke(Command(resume="yes"), config)
        assert result == {"requires_human": True, "decision": "yes"}
    else:
        assert result == {"requires_human": False}


def test_interrupt_and_resume_without_checkpointer_raise_error_for_missing_checkpointer() -> None:
    """Follow "A checkpointer is needed".

    Here the question itself is refused too: without a checkpointer it could never be answered.
    """
    graph = single(lambda state: {"status": interrupt("?")}, None, Reviewed)
    with pytest.raises(RuntimeError, match="checkpointer"):
        graph.invoke(Command(resume="x"))
    with pytest.raises(NoSaverError):
        graph.invoke({"status": "new"})


class Called(TypedDict, total=False):
    api_called: bool
    result: str


def test_function_called_before_interrupt_is_called_again_on_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Idempotence", BAD."""
    calls = []

    def node_fn(state: Called) -> Any:
        calls.append("api")
        feedback = interrupt("...")
        return {"result": feedback}

    graph = single(node_fn, checkpointer, Called)
    graph.invoke({"api_called": False}, config)
    graph.invoke(Command(resume="ok"), config)
    assert calls == ["api", "api"]


def test_flag_set_in_node_state_before_interrupt_does_not_prevent_a_second_call(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Idempotence", GOOD.

    A flag that the node sets in its state is lost at the pause, so the call is repeated, as in
    LangGraph.
    """
    calls = []

    def node_fn(state: Called) -> Any:
        if not state.get("api_called"):
            calls.append("api")
            state["api_called"] = True
        feedback = interrupt("...")
        return {"result": feedback}

    graph = single(node_fn, checkpointer, Called)
    graph.invoke({"api_called": False}, config)
    assert graph.invoke(Command(resume="ok"), config)["result"] == "ok"
    assert calls == ["api", "api"]


def test_function_passed_to_once_before_interrupt_is_called_once(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Idempotence", GOOD, with once() in place of the mark."""
    calls = []

    def node_fn(state: Called) -> Any:
        once("api", lambda: calls.append("api"))
        feedback = interrupt("...")
        return {"result": feedback}

    graph = single(node_fn, checkpointer, Called)
    graph.invoke({"api_called": False}, config)
    assert graph.invoke(Command(resume="ok"), config)["result"] == "ok"
    assert calls == ["api"]


def test_interrupt_id_from_ns_is_the_xxh3_hash_of_the_namespace() -> None:
    """Follow "A custom Interrupt type".

    In the article the id is random; it is worked out from the namespace, so that the question
    has the same id whenever its node runs again.
    """
    ns = "nodeA:6ce9e64f-edef-fe5d-f7dc-511fa9526960"
    made = Interrupt.from_ns({"any": ["data"]}, ns)
    assert made.value == {"any": ["data"]}
    assert made.id == xxhash.xxh3_128_hexdigest(ns.encode())
    with pytest.warns(DeprecationWarning, match="interrupt_id"):
        assert made.interrupt_id == made.id


def test_interrupt_created_with_deprecated_arguments_equals_interrupt_from_ns() -> None:
    """Follow the printed Interrupt(value=..., resumable=True, ns=[...], when='during')."""
    ns = ["parent_node:4c3a0248", "human_node:2fe86d52"]
    made = Interrupt(value="what is your name?", resumable=True, ns=ns, when="during")
    assert made == Interrupt.from_ns("what is your name?", "|".join(ns))
