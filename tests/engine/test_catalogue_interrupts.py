"""Catalogue of interrupts: all places of interrupt() in a node, and unusual responses."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from hitl_django import Command, interrupt
from hitl_django.engine.errors import (
    InterruptChangedError,
    NoSaverError,
    NothingPendingError,
    PendingInterruptsError,
    UnserializableError,
)

from .faults import PLACES, Trial
from .graphs import CONFIG, answer, line, log_of, open_interrupts, paused, saved, says

in_each_place = pytest.mark.parametrize("place", PLACES)


@in_each_place
def test_interrupt_inside_try_except_exception_pauses_the_run(place: str) -> None:
    def node(state: Any) -> dict[str, Any]:
        try:
            given = interrupt("may I?")
        except Exception:
            given = "nobody was asked"
        return {"log": [given]}

    trial = Trial(node, place)
    assert trial.advance().status == "interrupted"
    assert list(open_interrupts(trial.graph)) == ["may I?"]
    answer(trial.graph, "yes")
    assert sorted(log_of(trial.graph)) == ["able", "after", "yes"]


@in_each_place
def test_interrupt_inside_except_base_exception_pauses_run_and_logs_warning(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    def node(state: Any) -> dict[str, Any]:
        try:
            given = interrupt("may I?")
        except BaseException:
            given = "nobody was asked"
        return {"log": [given]}

    trial = Trial(node, place)
    assert trial.advance().status == "interrupted"
    assert "node bad caught an interrupt() and returned; the run pauses anyway" in caplog.text
    answer(trial.graph, "yes")
    assert sorted(log_of(trial.graph)) == ["able", "after", "yes"]


@in_each_place
def test_interrupt_in_os_thread_without_copied_context_raises_runtime_error(place: str) -> None:
    heard: list[BaseException] = []

    def node(state: Any) -> dict[str, Any]:
        def ask() -> None:
            try:
                interrupt("from a thread?")
            except BaseException as error:
                heard.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(60)
        return {"log": ["bad"]}

    trial = Trial(node, place)
    assert trial.advance().status == "finished"
    assert [type(error) for error in heard] == [RuntimeError]
    assert "outside of a runnable context" in str(heard[0])


@in_each_place
def test_interrupt_in_os_thread_with_copied_context_pauses_the_run(place: str) -> None:
    def node(state: Any) -> dict[str, Any]:
        with ThreadPoolExecutor(1) as pool:
            return {"log": [pool.submit(copy_context().run, interrupt, "from a thread?").result(5)]}

    trial = Trial(node, place)
    assert trial.advance().status == "interrupted"
    answer(trial.graph, "yes")
    assert sorted(log_of(trial.graph)) == ["able", "after", "yes"]


@in_each_place
def test_interrupts_in_list_comprehension_become_pending_sequentially(place: str) -> None:
    trial = Trial(lambda state: {"log": [[interrupt(each) for each in "abc"]]}, place)
    assert trial.advance().status == "interrupted"
    for payload in "abc":
        assert list(open_interrupts(trial.graph)) == [payload]
        answer(trial.graph, payload.upper())
    assert ["A", "B", "C"] in log_of(trial.graph)
    assert trial.graph.get_state(CONFIG).next == ()


def test_node_with_101_interrupts_has_each_interrupt_pending_once() -> None:
    graph = paused(line(a=lambda state: {"log": [interrupt(number) for number in range(101)]}))
    for number in range(101):
        assert list(open_interrupts(graph)) == [number]
        answer(graph, -number)
    assert log_of(graph) == [-number for number in range(101)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_node_finishes_if_number_of_interrupts_in_its_loop_changes_between_resumes(
    count: int,
) -> None:
    counts = [2]

    def node(state: Any) -> dict[str, Any]:
        return {"log": [[interrupt(number) for number in range(counts[0])]]}

    graph = paused(line(a=node))
    answer(graph, "0")
    counts[0] = count
    answer(graph, "1")
    for number in range(2, count):
        assert list(open_interrupts(graph)) == [number]
        answer(graph, str(number))
    assert log_of(graph) == [[str(number) for number in range(count)]]
    assert graph.get_state(CONFIG).next == ()


@pytest.mark.parametrize("strict", [False, True])
def test_interrupt_changed_after_response_logs_warning_or_fails_in_strict_mode(
    strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["pay 5?"]
    graph = paused(line(a=lambda state: {"log": [interrupt(words[0])]}))
    words[0] = "pay 5000?"
    place = {**CONFIG["configurable"], **({"on_interrupt_change": "error"} if strict else {})}
    if strict:
        with pytest.raises(
            InterruptChangedError, match="Node 'a' asked something different after it was answered"
        ):
            graph.invoke(Command(resume="yes"), {"configurable": place})
        assert graph.get_state(CONFIG).next == ("a",)
        words[0] = "pay 5?"
        assert graph.advance(CONFIG).status == "finished"
    else:
        graph.invoke(Command(resume="yes"), {"configurable": place})
        assert "Node 'a' asked something different after it was answered" in caplog.text
    assert log_of(graph) == ["yes"]


def test_interrupt_outside_a_graph_raises_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="outside of a runnable context"):
        interrupt("is there anybody?")


def test_interrupt_in_graph_without_checkpointer_raises_error_naming_the_node() -> None:
    graph = line(a=lambda state: {"log": [interrupt("who?")]}).compile()
    with pytest.raises(
        NoSaverError, match=r"Node 'a' called interrupt\(\), but the graph has no checkpointer"
    ):
        graph.invoke({"x": 1})


@in_each_place
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (object(), "$"),
        ({"order": [threading.Lock()]}, "$.order[0]"),
        (float("nan"), "$"),
        ({1: "one"}, "$"),
        ("NUL \0", "$"),
    ],
    ids=["object", "deep", "NaN", "key", "NUL"],
)
def test_interrupt_with_non_json_payload_fails_its_node_and_names_the_path(
    payload: Any, path: str, place: str
) -> None:
    trial = Trial(lambda state: interrupt(payload), place)
    error = trial.failure()
    assert isinstance(error, UnserializableError)
    assert error.path == path
    assert any("'bad'" in note for note in error.__notes__)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


def test_interrupt_with_self_referencing_payload_fails_its_node() -> None:
    loop: list[Any] = []
    loop.append(loop)
    trial = Trial(lambda state: interrupt(loop))
    trial.failure()
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


# Answers.


@pytest.mark.parametrize("given", [None, 5, [], "", "text", {"unexpected": True}, False], ids=repr)
def test_response_that_makes_node_fail_is_reused_when_fixed_node_runs_again(given: Any) -> None:
    strict = [True]

    def node(state: Any) -> dict[str, Any]:
        decision = interrupt("approve?")
        if strict and decision["approved"] is not True:
            raise ValueError("not approved")
        return {"log": [decision]}

    graph = paused(line(a=node, b=says("b")))
    [asked] = open_interrupts(graph).values()
    with pytest.raises((TypeError, KeyError)) as raised:
        graph.invoke(Command(resume={asked: given}), CONFIG)
    assert any("'a'" in note for note in raised.value.__notes__)
    assert graph.get_state(CONFIG).next == ("a",)
    strict.clear()
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == [given, "b"]


def test_unstorable_response_raises_unserializable_error_and_leaves_interrupt_pending() -> None:
    graph = paused(line(a=lambda state: {"log": [interrupt("who?")]}))
    with pytest.raises(UnserializableError):
        answer(graph, threading.Lock())
    assert list(open_interrupts(graph)) == ["who?"]
    answer(graph, "me")
    assert log_of(graph) == ["me"]


def test_second_response_to_answered_interrupt_raises_error_that_nothing_is_pending() -> None:
    graph = paused(line(a=lambda state: {"log": [interrupt("who?")]}))
    answer(graph, "me")
    with pytest.raises(NothingPendingError):
        answer(graph, "me")
    assert log_of(graph) == ["me"]


# The same input twice.


def test_graph_invoked_twice_with_equal_input_runs_twice_on_accumulated_state() -> None:
    graph = saved(line(a=says("a")))
    for _ in range(2):
        graph.invoke({"x": 1, "log": ["in"]}, CONFIG)
    assert log_of(graph) == ["in", "a", "in", "a"]


def test_invoke_with_input_at_pending_interrupt_raises_pending_interrupts_error() -> None:
    graph = paused(line(a=lambda state: {"log": [interrupt("who?")]}))
    with pytest.raises(PendingInterruptsError):
        graph.invoke({"x": 1}, CONFIG)
    assert list(open_interrupts(graph)) == ["who?"]
    answer(graph, "me")
    assert log_of(graph) == ["me"]
