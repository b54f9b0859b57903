"""Pauses: interrupts in nodes, and resumption at any time and in any process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl_django import Command, StateGraph, interrupt
from hitl_django.engine.errors import (
    EmptyInputError,
    GraphInterrupt,
    NoSaverError,
    NothingPendingError,
    PendingInterruptsError,
    ThreadNotFound,
    UnknownInterruptError,
)
from hitl_django.engine.types import RetryPolicy, Send, StateUpdate

from .graphs import (
    CONFIG,
    State,
    answer,
    asks,
    line,
    log_of,
    open_interrupts,
    paused,
    saved,
    says,
    side_by_side,
)

UNKNOWN = "0" * 32


def test_interrupt_pauses_run_before_next_node_and_response_resumes_run() -> None:
    graph = saved(line(a=asks("q"), b=says("b")))
    stopped = graph.invoke({"x": 1}, CONFIG)
    assert [asked.value for asked in stopped["__interrupt__"]] == ["q"]
    assert graph.get_state(CONFIG).next == ("a",)
    assert answer(graph, "yes") == {"x": 1, "log": ["yes", "b"]}
    assert graph.get_state(CONFIG).next == ()


def test_node_resumed_after_interrupt_runs_again_from_its_first_line() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        calls.append("before")
        given = interrupt("q")
        calls.append("after")
        return {"log": [given]}

    answer(paused(line(a=node)), "yes")
    assert calls == ["before", "before", "after"]


def test_each_sequential_interrupt_of_a_node_receives_its_response() -> None:
    graph = paused(line(a=asks("one", "two", "three")))
    for payload, given in (("one", "1"), ("two", "2"), ("three", "3")):
        assert list(open_interrupts(graph)) == [payload]
        answer(graph, given)
    assert log_of(graph) == ["1", "2", "3"]


def test_node_can_interrupt_repeatedly_until_response_is_valid() -> None:
    def node(state: State) -> dict[str, Any]:
        payload = "age?"
        while not isinstance(given := interrupt(payload), int):
            payload = f"{given!r} is no age"
        return {"x": given}

    graph = paused(line(a=node))
    assert list(open_interrupts(graph)) == ["age?"]
    answer(graph, "old")
    assert list(open_interrupts(graph)) == ["'old' is no age"]
    assert answer(graph, 7)["x"] == 7


@pytest.mark.parametrize("value", [False, 0, "", [], {"a": 1}, {"k" * 32: 1}, 1.5, "yes"])
def test_resume_value_other_than_none_is_returned_by_interrupt(value: Any) -> None:
    assert answer(paused(line(a=asks("q"))), value)["log"] == [value]


def test_none_given_by_interrupt_id_is_returned_by_interrupt() -> None:
    graph = paused(line(a=asks("q")))
    assert answer(graph, {open_interrupts(graph)["q"]: None})["log"] == [None]


def test_parallel_interrupts_can_be_answered_together_or_separately() -> None:
    for together in (True, False):
        graph = paused(side_by_side(a=asks("qa"), b=asks("qb"), c=says("c")))
        ids = open_interrupts(graph)
        assert list(ids) == ["qa", "qb"]
        if together:
            answer(graph, {ids["qa"]: "A", ids["qb"]: "B"})
        else:
            answer(graph, {ids["qb"]: "B"})
            assert list(open_interrupts(graph)) == ["qa"]
            answer(graph, "A")
        assert log_of(graph) == ["A", "B", "c"]


def test_interrupts_of_twelve_sends_are_returned_in_send_order() -> None:
    graph = line(a=lambda state: Command(goto=[Send("w", i) for i in range(12)]))
    graph.add_node("w", lambda arg: {"log": [interrupt(arg)]})
    stopped = saved(graph).invoke({"x": 1}, CONFIG)
    assert [asked.value for asked in stopped["__interrupt__"]] == list(range(12))


def test_node_finished_beside_an_interrupt_does_not_run_again_on_resume() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        calls.append(1)
        return {"log": ["b"]}

    graph = paused(side_by_side(a=asks("qa"), b=node))
    assert log_of(graph) == ["b"]
    answer(graph, "A")
    assert (log_of(graph), len(calls)) == (["A", "b"], 1)


def test_each_sequential_interrupt_of_two_parallel_nodes_receives_its_response() -> None:
    graph = paused(side_by_side(a=asks("a1", "a2"), b=asks("b1", "b2")))
    answer(graph, {open_interrupts(graph)["a1"]: "A1"})
    assert set(open_interrupts(graph)) == {"a2", "b1"}
    answer(graph, {name: f"{q}!" for q, name in open_interrupts(graph).items()})
    answer(graph, "B2")
    assert log_of(graph) == ["A1", "a2!", "b1!", "B2"]


def test_invoke_with_none_at_interrupt_leaves_the_same_interrupt_pending() -> None:
    graph = paused(line(a=asks("q")))
    before = open_interrupts(graph)
    assert "__interrupt__" in graph.invoke(None, CONFIG)
    assert open_interrupts(graph) == before


def test_interrupt_of_same_node_in_later_run_has_new_id() -> None:
    graph = paused(line(a=asks("q")))
    first = open_interrupts(graph)["q"]
    answer(graph, "yes")
    graph.invoke({"x": 2}, CONFIG)
    assert open_interrupts(graph)["q"] != first


# Invalid responses, and their error messages.


def test_response_to_unknown_interrupt_id_raises_unknown_interrupt_error() -> None:
    graph = paused(line(a=asks("q")))
    before = list(graph.checkpointer.list(CONFIG))
    with pytest.raises(UnknownInterruptError, match="Unknown or already-consumed interrupt"):
        answer(graph, {UNKNOWN: 1})
    assert list(graph.checkpointer.list(CONFIG)) == before
    assert answer(graph, "yes")["log"] == ["yes"]


def test_response_to_answered_interrupt_id_raises_unknown_interrupt_error() -> None:
    graph = paused(line(a=asks("one", "two")))
    first = open_interrupts(graph)["one"]
    answer(graph, {first: "1"})
    with pytest.raises(UnknownInterruptError) as raised:
        answer(graph, {first: "again"})
    assert raised.value.pending_ids == (open_interrupts(graph)["two"],)
    assert answer(graph, "2")["log"] == ["1", "2"]


def test_response_without_id_to_two_pending_interrupts_raises_ambiguous_error() -> None:
    graph = paused(side_by_side(a=asks("qa"), b=asks("qb")))
    with pytest.raises(UnknownInterruptError) as raised:
        answer(graph, "yes")
    assert raised.value.reason == "ambiguous"
    assert raised.value.pending_ids == tuple(sorted(open_interrupts(graph).values()))
    assert log_of(graph) == []


def test_command_resume_on_finished_thread_raises_error_that_nothing_is_pending() -> None:
    graph = paused(line(a=asks("q")))
    answer(graph, "yes")
    with pytest.raises(NothingPendingError, match="has no pending interrupt"):
        answer(graph, "again")
    with pytest.raises(UnknownInterruptError):
        answer(graph, {UNKNOWN: "again"})
    assert log_of(graph) == ["yes"]


def test_second_response_to_finished_run_is_not_used_by_next_run() -> None:
    graph = paused(line(a=asks("q")))
    answer(graph, "first")
    with pytest.raises(NothingPendingError):
        answer(graph, "double click")
    graph.invoke({"x": 2}, CONFIG)
    assert list(open_interrupts(graph)) == ["q"]


def test_command_resume_on_thread_without_checkpoint_raises_thread_not_found() -> None:
    graph = saved(line(a=asks("q")))
    with pytest.raises(ThreadNotFound, match="'thread'"):
        answer(graph, "yes")
    assert list(graph.checkpointer.list(CONFIG)) == []


@pytest.mark.parametrize("empty", [Command(), Command(resume=None), Command(update={}, goto=())])
def test_empty_command_at_interrupt_raises_empty_input_error_and_leaves_interrupt_pending(
    empty: Command[Any],
) -> None:
    graph = paused(line(a=asks("q")))
    with pytest.raises(EmptyInputError):
        graph.invoke(empty, CONFIG)
    assert list(open_interrupts(graph)) == ["q"]


def test_new_input_at_interrupt_raises_pending_interrupts_error_unless_discard_pending_is_set() -> (
    None
):
    graph = paused(line(a=asks("q")))
    with pytest.raises(PendingInterruptsError) as raised:
        graph.invoke({"x": 2}, CONFIG)
    assert raised.value.pending_ids == tuple(open_interrupts(graph).values())
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    assert graph.invoke({"x": 2}, discarding)["x"] == 2


def test_update_state_at_pending_interrupt_raises_pending_interrupts_error() -> None:
    graph = paused(line(a=asks("q")))
    named = graph.get_state(CONFIG).config
    for place in (CONFIG, named):
        with pytest.raises(PendingInterruptsError) as raised:
            graph.update_state(place, {"x": 2})
        assert raised.value.pending_ids == tuple(open_interrupts(graph).values())
    answer(graph, "yes")
    graph.update_state(named, {"x": 2}, as_node="a")
    assert graph.get_state(CONFIG).values == {"x": 2, "log": []}


def test_bulk_update_state_stores_separate_writes_for_updates_of_same_node() -> None:
    graph = saved(line(a=says("a")))
    newest = graph.bulk_update_state(CONFIG, [[StateUpdate({"x": 1}, "a")]])
    twice = [StateUpdate({"log": ["one"]}, "a"), StateUpdate({"log": ["two"]}, "a")]
    graph.bulk_update_state(CONFIG, [twice])
    saved_on = graph.checkpointer.get_tuple(newest)
    stored = [value for _, name, value in saved_on.pending_writes if name == "log"]
    assert sorted(stored) == [["one"], ["two"]]


def test_command_resume_without_checkpointer_raises_error_for_missing_checkpointer() -> None:
    with pytest.raises(
        NoSaverError, match=r"Cannot use Command\(resume=...\) without checkpointer"
    ):
        line(a=asks("q")).compile().invoke(Command(resume=1))


def test_interrupt_without_checkpointer_raises_error_naming_the_node() -> None:
    with pytest.raises(
        NoSaverError, match=r"Node 'a' called interrupt\(\), but the graph has no checkpointer"
    ):
        line(a=asks("q")).compile().invoke({"x": 1})


def test_interrupt_outside_a_graph_raises_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="Called get_config outside of a runnable context"):
        interrupt("q")


# Failures before and after interrupts.


def test_response_is_reused_when_node_failing_after_interrupt_runs_again() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        given = interrupt("q")
        calls.append(given)
        if len(calls) == 1:
            raise OSError("down")
        return {"log": [given]}

    graph = paused(line(a=node))
    with pytest.raises(OSError, match="down"):
        answer(graph, "yes")
    [task] = graph.get_state(CONFIG).tasks
    assert task.error == "OSError('down')"
    assert graph.invoke(None, CONFIG)["log"] == ["yes"]
    assert calls == ["yes", "yes"]


def test_new_response_replaces_response_that_made_node_fail() -> None:
    graph = paused(line(a=lambda state: {"log": [10 // interrupt("q")]}))
    with pytest.raises(ZeroDivisionError):
        answer(graph, 0)
    assert list(open_interrupts(graph)) == ["q"]
    assert answer(graph, 5)["log"] == [2]


def test_only_last_response_given_to_a_failed_node_can_be_replaced() -> None:
    def node(state: State) -> dict[str, Any]:
        first = interrupt("one")
        second = interrupt(f"after {first}")
        if second == "bad":
            raise ValueError(second)
        return {"log": [first, second]}

    graph = paused(line(a=node))
    one = open_interrupts(graph)["one"]
    answer(graph, "A")
    with pytest.raises(ValueError, match="bad"):
        answer(graph, "bad")
    with pytest.raises(UnknownInterruptError):
        answer(graph, {one: "B"})
    assert answer(graph, "good")["log"] == ["A", "good"]


def test_interrupt_is_not_retried_by_policy_matching_all_exceptions() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        calls.append(1)
        return {"log": [interrupt("q")]}

    policy = RetryPolicy(0.0001, jitter=False, retry_on=BaseException)  # type: ignore[arg-type]
    graph = StateGraph(State).add_node("a", node, retry_policy=policy).add_edge("__start__", "a")
    answer(paused(graph), "yes")
    assert len(calls) == 2


def test_node_retried_after_failure_receives_its_stored_responses_again() -> None:
    calls = []

    def node(state: State) -> dict[str, Any]:
        given = [interrupt("one"), interrupt("two")]
        calls.append(given)
        if len(calls) < 3:
            raise ConnectionError
        return {"log": given}

    policy = RetryPolicy(0.0001, jitter=False)
    graph = StateGraph(State).add_node("a", node, retry_policy=policy).add_edge("__start__", "a")
    graph = paused(graph)
    answer(graph, "1")
    assert answer(graph, "2")["log"] == ["1", "2"]
    assert calls == [["1", "2"]] * 3


def test_state_next_contains_node_interrupted_beside_a_failed_sibling() -> None:
    graph = saved(side_by_side(a=asks("qa"), b=lambda state: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        graph.invoke({"x": 1}, CONFIG)
    assert set(graph.get_state(CONFIG).next) == {"a", "b"}


# A node can't suppress a pause.


def swallowing(caught: type[BaseException]) -> Any:
    def node(state: State) -> dict[str, Any]:
        try:
            return {"log": [interrupt("q")]}
        except caught:
            return {"log": ["acted on nobody's decision"]}

    return node


@pytest.mark.parametrize("caught", [Exception, BaseException, GraphInterrupt])
def test_node_that_catches_its_interrupt_pauses_until_response(
    caught: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    graph = paused(line(a=swallowing(caught)))
    assert (log_of(graph), list(open_interrupts(graph))) == ([], ["q"])
    assert ("node a caught an interrupt() and returned" in caplog.text) == (caught is not Exception)
    assert answer(graph, "yes")["log"] == ["yes"]


def test_node_raising_error_in_finally_of_interrupt_fails_the_run() -> None:
    def node(state: State) -> None:
        try:
            interrupt("q")
        finally:
            raise ValueError("clean up")

    graph = saved(line(a=node))
    with pytest.raises(ValueError, match="clean up"):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.get_state(CONFIG).next == ("a",)


def test_interrupts_in_asyncio_gather_can_be_answered_in_any_order() -> None:
    async def ask(payload: str) -> Any:
        return interrupt(payload)

    async def node(state: State) -> dict[str, Any]:
        return {"log": list(await asyncio.gather(ask("p"), ask("q")))}

    graph = saved(line(a=node))
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    ids = open_interrupts(graph)
    assert set(ids) == {"p", "q"}
    asyncio.run(graph.ainvoke(Command(resume={ids["q"]: "Q"}), CONFIG))
    assert set(open_interrupts(graph)) == {"p"}
    asyncio.run(graph.ainvoke(Command(resume={ids["p"]: "P"}), CONFIG))
    assert log_of(graph) == ["P", "Q"]
