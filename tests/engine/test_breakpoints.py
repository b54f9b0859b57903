"""Static breakpoints before and after nodes."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django import Command

from .graphs import CONFIG, asks, line, log_of, open_interrupts, paused, saved, says, side_by_side


def abc() -> Any:
    return line(a=says("a"), b=says("b"), c=says("c"))


def test_interrupt_before_option_stops_run_before_the_named_node() -> None:
    graph = paused(abc(), interrupt_before=["b"])
    assert (log_of(graph), graph.get_state(CONFIG).next) == (["a"], ("b",))
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b", "c"]


def test_interrupt_after_option_stops_run_after_the_named_node() -> None:
    graph = paused(abc(), interrupt_after=["b"])
    assert (log_of(graph), graph.get_state(CONFIG).next) == (["a", "b"], ("c",))
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["interrupt_before", "interrupt_after"])
def test_breakpoint_star_stops_run_at_every_node_except_start(kind: str) -> None:
    graph = paused(abc(), **{kind: "*"})
    stops = [log_of(graph)]
    while graph.get_state(CONFIG).next:
        graph.invoke(None, CONFIG)
        stops.append(log_of(graph))
    expected = [["a"], ["a", "b"], ["a", "b", "c"]]
    assert stops == ([[], *expected] if kind == "interrupt_before" else expected)


@pytest.mark.parametrize("word", ["go", True, 0, {"any": "thing"}])
def test_resume_value_of_any_type_continues_run_past_a_breakpoint(word: Any) -> None:
    graph = paused(abc(), interrupt_before=["b"])
    assert graph.invoke(Command(resume=word), CONFIG)["log"] == ["a", "b", "c"]


def test_resume_value_given_at_breakpoint_does_not_answer_next_interrupt() -> None:
    graph = paused(line(a=asks("q")), interrupt_before=["a"])
    graph.invoke(Command(resume="go"), CONFIG)
    assert (list(open_interrupts(graph)), log_of(graph)) == (["q"], [])


def test_breakpoints_passed_to_invoke_do_not_stop_later_calls() -> None:
    graph = saved(abc())
    graph.invoke({"x": 1}, CONFIG, interrupt_before=["b"])
    assert graph.get_state(CONFIG).next == ("b",)
    graph.invoke(None, CONFIG, interrupt_after=["b"])
    assert graph.get_state(CONFIG).next == ("c",)
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b", "c"]


def test_invoke_with_breakpoints_none_uses_compiled_breakpoints_and_empty_list_disables_all() -> (
    None
):
    for given, left in ((None, ("b",)), ([], ())):
        graph = saved(abc(), interrupt_before=["b"])
        graph.invoke({"x": 1}, CONFIG, interrupt_before=given)
        assert graph.get_state(CONFIG).next == left


def test_breakpoint_is_pending_interrupt_in_outcome_but_absent_from_state() -> None:
    graph = saved(abc(), interrupt_before=["b"])
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    [interrupt] = outcome.pending_interrupts
    assert (outcome.status, interrupt.kind, interrupt.node) == ("interrupted", "breakpoint", "b")
    assert graph.get_state(CONFIG).interrupts == ()
    assert "__interrupt__" not in saved(abc(), interrupt_before=["b"]).invoke({"x": 1}, CONFIG)


def test_second_advance_at_breakpoint_stops_with_the_same_pending_interrupt() -> None:
    graph = saved(abc(), interrupt_before=["b"])
    graph.submit({"x": 1}, CONFIG)
    first = graph.advance(CONFIG)
    assert graph.advance(CONFIG).pending_interrupts == first.pending_interrupts
    assert log_of(graph) == ["a"]


def test_breakpoint_with_stored_resume_value_does_not_stop_next_advance() -> None:
    graph = saved(abc(), interrupt_before=["b"])
    graph.submit({"x": 1}, CONFIG)
    [interrupt] = graph.advance(CONFIG).pending_interrupts
    place = {
        "configurable": {
            "thread_id": "thread",
            "checkpoint_ns": interrupt.checkpoint_ns,
            "checkpoint_id": interrupt.checkpoint_id,
        }
    }
    graph.checkpointer.put_writes(place, [("__resume__", True)], interrupt.task_id)
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["a", "b", "c"]


def test_breakpoint_on_node_in_loop_stops_run_at_each_iteration() -> None:
    graph = line(a=lambda state: {"x": state["x"] + 1})
    graph.add_conditional_edges("a", lambda state: "a" if state["x"] < 3 else "__end__")
    compiled = saved(graph, interrupt_before=["a"])
    compiled.invoke({"x": 0}, CONFIG)
    stops = 0
    while compiled.get_state(CONFIG).next:
        stops += 1
        compiled.invoke(None, CONFIG)
    assert stops == 3


def test_breakpoint_on_one_node_stops_all_tasks_of_its_super_step() -> None:
    graph = paused(side_by_side(a=says("a"), b=says("b")), interrupt_before=["b"])
    assert (log_of(graph), graph.get_state(CONFIG).next) == ([], ("a", "b"))


def test_breakpoint_without_checkpointer_ends_invoke_before_the_node() -> None:
    assert abc().compile(interrupt_before=["b"]).invoke({"x": 1})["log"] == ["a"]


def test_new_input_at_breakpoint_restarts_graph_from_start() -> None:
    graph = paused(abc(), interrupt_before=["b"])
    assert graph.invoke({"x": 2}, CONFIG) == {"x": 2, "log": ["a", "a"]}


def test_breakpoint_is_yielded_in_stream_as_interrupt_chunk_with_an_empty_tuple() -> None:
    graph = saved(abc(), interrupt_before=["b"])
    assert list(graph.stream({"x": 1}, CONFIG)) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
