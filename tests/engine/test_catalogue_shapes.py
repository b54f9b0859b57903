"""Catalogue of graphs: unusual reducers, structures, sizes and names."""

from __future__ import annotations

import functools
import math
import operator
from itertools import count
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from typing_extensions import TypedDict

from hitl_django import END, START, Command, StateGraph, interrupt
from hitl_django.engine.errors import (
    GraphDefinitionError,
    GraphRecursionError,
    InvalidUpdateError,
    UnserializableError,
)
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.types import Send

from .faults import said_of
from .graphs import CONFIG, State, answer, line, log_of, saved, says, side_by_side


def folding(reducer: Any) -> type:
    return TypedDict("Folded", {"x": Annotated[Any, reducer], "log": Annotated[list, operator.add]})


def two_writers(schema: type, *values: Any) -> StateGraph:
    graph = StateGraph(schema)
    for name, value in zip("abcdef", values, strict=False):
        graph.add_node(name, lambda state, value=value, name=name: {"x": value, "log": [name]})
        graph.add_edge(START, name)
    return graph


# Reducers.


def test_parallel_writes_to_key_without_reducer_fail_run_until_reducer_is_added() -> None:
    saver = InMemorySaver()
    graph = saved(two_writers(State, 2, 3), saver)
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert outcome.status == "failed"
    assert isinstance(outcome.error, InvalidUpdateError)
    assert "'x'" in said_of(outcome.error)
    seen = graph.get_state(CONFIG)
    assert (seen.values["x"], seen.next) == (1, ("a", "b"))

    mended = saved(two_writers(folding(max), 2, 3), saver)
    assert mended.advance(CONFIG).status == "finished"
    assert mended.get_state(CONFIG).values == {"x": 3, "log": ["a", "b"]}


def refuses(old: Any, new: Any) -> Any:
    raise ZeroDivisionError("in the reducer")


def test_exception_in_reducer_names_key_and_fixed_graph_does_not_rerun_node() -> None:
    saver, ran = InMemorySaver(), []

    def graph_with(reducer: Any) -> Any:
        graph = StateGraph(folding(reducer)).add_edge(START, "a").add_edge("a", "b")
        graph.add_node("a", lambda state: ran.append("a") or {"x": 5, "log": ["a"]})
        return saved(graph.add_node("b", says("b")), saver)

    broken = graph_with(refuses)
    broken.submit({"x": 1, "log": ["in"]}, CONFIG)
    outcome = broken.advance(CONFIG)
    assert outcome.status == "failed"
    assert isinstance(outcome.error, ZeroDivisionError)
    assert "'x'" in said_of(outcome.error)
    seen = broken.get_state(CONFIG)
    assert (seen.values, seen.next) == ({"x": 1, "log": ["in"]}, ("a",))

    mended = graph_with(operator.add)
    assert mended.advance(CONFIG).status == "finished"
    assert mended.get_state(CONFIG).values == {"x": 6, "log": ["in", "a", "b"]}
    assert ran == ["a"]


def test_node_write_rejected_by_reducer_can_be_replaced_with_update_state() -> None:
    graph = saved(line(a=lambda state: {"log": 5}, b=says("b")))
    graph.submit({"x": 1, "log": ["in"]}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert outcome.status == "failed"
    assert "'log'" in said_of(outcome.error)
    assert graph.get_state(CONFIG).values == {"x": 1, "log": ["in"]}
    # Return the checkpoint by id, without later pending writes.
    graph.update_state(graph.get_state(CONFIG).config, {"log": ["edited"]}, as_node="a")
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["in", "edited", "b"]


def test_get_state_does_not_call_reducer_again() -> None:
    numbers = count(1)
    graph = saved(two_writers(folding(lambda old, new: (old or 0) + next(numbers)), 0, 0, 0))
    graph.invoke({"log": []}, CONFIG)
    before = graph.get_state(CONFIG).values["x"]
    for _ in range(3):
        assert graph.get_state(CONFIG).values["x"] == before


def extend(old: list[Any], new: list[Any]) -> list[Any]:
    old.extend(new)
    return old


class Mutated(TypedDict):
    log: Annotated[list, extend]


def test_reducer_mutating_its_argument_does_not_change_older_checkpoints() -> None:
    graph = StateGraph(Mutated).add_node("a", says("a")).add_node("b", says("b"))
    compiled = saved(graph.add_edge(START, "a").add_edge("a", "b"))
    assert compiled.invoke({"log": ["in"]}, CONFIG) == {"log": ["in", "a", "b"]}
    history = [seen.values.get("log", []) for seen in compiled.get_state_history(CONFIG)]
    assert history == [["in", "a", "b"], ["in", "a"], ["in"], []]


def test_reducer_result_nan_is_stored_and_restored() -> None:
    graph = saved(two_writers(folding(lambda old, new: math.nan), 1, 2))
    graph.invoke({"log": []}, CONFIG)
    assert math.isnan(graph.get_state(CONFIG).values["x"])


def test_reducer_receives_parallel_writes_in_order_of_node_names() -> None:
    schema = folding(lambda old, new: f"{old or ''}{new}")
    for _ in range(20):
        graph = two_writers(schema, *"123456").compile()
        assert graph.invoke({"log": []})["x"] == "123456"


def test_unstorable_reducer_result_fails_run_until_reducer_is_fixed() -> None:
    saver = InMemorySaver()

    def graph_with(reducer: Any) -> Any:
        return saved(two_writers(folding(reducer), 1, 2), saver)

    broken = graph_with(lambda old, new: object())
    broken.submit({"log": ["in"]}, CONFIG)
    outcome = broken.advance(CONFIG)
    assert outcome.status == "failed"
    assert isinstance(outcome.error, UnserializableError)
    assert outcome.error.path == "$.x"
    assert broken.get_state(CONFIG).values["log"] == ["in", "a", "b"]
    mended = graph_with(max)
    assert mended.advance(CONFIG).status == "finished"
    assert mended.get_state(CONFIG).values == {"x": 2, "log": ["in", "a", "b"]}


# Shapes.


@pytest.mark.parametrize("edges", [[("a", "a")], [("a", "b"), ("b", "a")]], ids=["self", "two"])
def test_endless_cycle_stops_at_recursion_limit_with_last_state_readable(edges: Any) -> None:
    graph = StateGraph(State).add_edge(START, "a")
    for name in "ab":
        graph.add_node(name, says(name))
    for one, other in edges:
        graph.add_edge(one, other)
    compiled = saved(graph)
    config = {**CONFIG, "recursion_limit": 7}
    with pytest.raises(GraphRecursionError, match="Recursion limit of 7"):
        compiled.invoke({"x": 1}, config)
    assert len(log_of(compiled)) == 7
    assert len(compiled.get_state(CONFIG).next) == 1
    assert compiled.advance(config).status == "out_of_steps"
    assert len(log_of(compiled)) > 7  # the run continues for as many steps again, and stops again


def test_node_with_conditional_edge_to_itself_repeats_until_branch_returns_end() -> None:
    graph = line(a=says("a"))
    graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 5 else END)
    assert saved(graph).invoke({"x": 1}, CONFIG)["log"] == ["a"] * 5


def test_compile_of_graph_without_nodes_raises_graph_definition_error() -> None:
    with pytest.raises(GraphDefinitionError, match="must have an entrypoint"):
        StateGraph(State).compile()


def test_graph_with_only_edge_from_start_to_end_returns_its_input() -> None:
    graph = saved(StateGraph(State).add_edge(START, END))
    assert graph.invoke({"x": 1, "log": ["in"]}, CONFIG) == {"x": 1, "log": ["in"]}
    assert graph.get_state(CONFIG).next == ()


def test_graph_calling_itself_endlessly_raises_recursion_error_with_state_readable() -> None:
    holder: list[Any] = []
    graph = saved(line(a=says("a"), b=lambda state: holder[0].invoke({"x": 1})))
    holder.append(graph)
    with pytest.raises(RecursionError):
        graph.invoke({"x": 1}, CONFIG)
    seen = graph.get_state(CONFIG)
    assert (seen.values["log"], seen.next) == (["a"], ("b",))


def test_graph_calling_itself_until_a_condition_returns_all_results() -> None:
    holder: list[Any] = []

    def again(state: Any) -> dict[str, Any]:
        left = state["x"]
        return {"log": [left, *(holder[0].invoke({"x": left - 1})["log"] if left else ())]}

    graph = saved(line(a=again))
    holder.append(graph)
    assert graph.invoke({"x": 4}, CONFIG)["log"] == [4, 3, 2, 1, 0]


# Sizes.


def test_writes_of_thousand_parallel_nodes_are_applied_in_node_order() -> None:
    names = [f"n{number:04}" for number in range(1_000)]
    graph = saved(side_by_side(**{name: says(name) for name in names}))
    assert graph.invoke({"x": 1}, CONFIG)["log"] == names


def test_graph_of_thousand_sequential_nodes_runs_nodes_in_order() -> None:
    names = [f"n{number:04}" for number in range(1_000)]
    graph = line(**{name: says(name) for name in names}).compile()
    assert graph.invoke({"x": 1}, {"recursion_limit": 1_100})["log"] == names


def test_results_of_ten_thousand_sends_are_applied_in_send_order() -> None:
    graph = StateGraph(State).add_node("w", lambda arg: {"log": [arg]})
    graph.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(10_000)], ["w"])
    compiled = saved(graph)
    assert compiled.invoke({"x": 1}, CONFIG)["log"] == list(range(10_000))
    assert len(log_of(compiled)) == 10_000


def test_failed_send_task_runs_again_without_rerunning_finished_sends() -> None:
    ran: list[int] = []
    broken = [True]

    def work(number: int) -> dict[str, Any]:
        ran.append(number)
        if number == 99 and broken:
            raise RuntimeError("the last one")
        return {"log": [number]}

    graph = StateGraph(State).add_node("w", work)
    graph.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(100)], ["w"])
    compiled = saved(graph)
    compiled.submit({"x": 1}, CONFIG)
    assert compiled.advance(CONFIG).status == "failed"
    broken.clear()
    assert compiled.advance(CONFIG).status == "finished"
    assert log_of(compiled) == list(range(100))
    assert ran.count(0) == 1
    assert ran.count(99) == 2


# Names.

LONG = "n" * 300


@pytest.mark.parametrize(
    "name", ["a|b", "a:b", "__start__", "__end__", "", "a\0b", "\ud800"], ids=ascii
)
def test_add_node_with_reserved_name_raises_value_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"^Node |reserved character"):
        StateGraph(State).add_node(name, says("a")).add_edge(START, name).compile()


@pytest.mark.parametrize(
    "name", [LONG, "a\nb", " ", "ünï ✓", "a/b", "a'b\"c", "{0}%s", "branch"], ids=ascii
)
def test_node_with_unusual_name_interrupts_and_resumes(name: str) -> None:
    graph = StateGraph(State).add_edge(START, name).add_edge(name, "b").add_node("b", says("b"))
    graph.add_node(name, lambda state: {"log": [interrupt("who?")]})
    compiled = saved(graph)
    assert [q.value for q in compiled.invoke({"x": 1}, CONFIG)["__interrupt__"]] == ["who?"]
    assert compiled.get_state(CONFIG).next == (name,)
    answer(compiled, "me")
    assert log_of(compiled) == ["me", "b"]


@pytest.mark.parametrize("thread", ["a|b", "a:b", "a\0b", LONG, "", "__start__", "\n"], ids=ascii)
def test_thread_with_unusual_id_interrupts_and_resumes(thread: str) -> None:
    config = {"configurable": {"thread_id": thread}}
    graph = saved(line(a=lambda state: {"log": [interrupt("who?")]}))
    graph.invoke({"x": 1}, config)
    graph.invoke(Command(resume="me"), config)
    assert graph.get_state(config).values["log"] == ["me"]


def test_interrupt_in_subgraph_with_very_long_node_name_receives_its_response() -> None:
    child = line(**{LONG: lambda state: {"log": [interrupt("deep?")]}}).compile()
    graph = saved(line(**{"a b": child, "c d": says("end")}))
    graph.invoke({"x": 1}, CONFIG)
    answer(graph, "yes")
    assert log_of(graph) == ["yes", "end"]


def test_node_added_from_functools_partial_without_name_is_named_partial() -> None:
    node = functools.partial(lambda extra, state: {"log": [extra]}, "given")
    assert list(StateGraph(State).add_node(node).nodes) == ["partial"]
    assert line(a=node).compile().invoke({"x": 1})["log"] == ["given"]


def test_add_node_accepts_object_with_invoke_method_and_rejects_object_without_invoke() -> None:
    class Invoked:
        def invoke(self, state: Any) -> Any:
            return {"log": ["invoked"]}

    class Called(Invoked):
        def __call__(self, state: Any) -> Any:
            return {"log": ["called"]}

    nodes = {"a": Invoked(), "b": Called(), "c": Mock(return_value={"log": ["mocked"]})}
    result = line(**nodes).compile().invoke({"x": 1})
    assert result["log"] == ["invoked", "called", "mocked"]
    unnamed = StateGraph(State).add_node(Invoked()).add_node(Called()).add_node(Mock())
    assert list(unnamed.nodes) == ["Invoked", "Called", "Mock"]
    with pytest.raises(TypeError, match="Expected a function or a graph, got object"):
        unnamed.add_node(object())


@pytest.mark.parametrize("chosen", [5, object()], ids=["number", "object"])
def test_branch_returning_value_other_than_node_name_raises_value_error(chosen: Any) -> None:
    graph = saved(line(a=says("a")).add_conditional_edges("a", lambda state: chosen))
    with pytest.raises(ValueError, match="Branch did not return a valid destination"):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.get_state(CONFIG).next == ("a",)
