"""plan and apply: pure functions of the state, independent of the order of finished tasks."""

from __future__ import annotations

import itertools
import logging
import operator
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph
from hitl_django.engine.errors import InvalidUpdateError
from hitl_django.engine.loop.apply import InputWrites, apply_writes, count_version
from hitl_django.engine.loop.channel_state import (
    ChannelState,
    list_durable_values,
    restore_channels,
)
from hitl_django.engine.loop.plan import find_breakpoints, plan_tasks
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.task.graph_spec import GraphSpec
from hitl_django.engine.task.task import StepOrigin
from hitl_django.engine.types import Send

CHECKPOINT = "1f1e575e-a973-6cc3-8000-845cd20a5d8a"


class Values(TypedDict, total=False):
    x: int
    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]


def nothing(state: Any) -> None:
    """A node that does nothing."""


class Stepper:
    """A graph that is executed manually: planned tasks, and the given writes of tasks."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        self.state = restore_channels(spec, None)
        self.step = -1
        self.tasks: list[Any] = []

    def begin(self, value: Any) -> list[str]:
        apply_writes(self.spec, self.state, [InputWrites("__input__", [(START, value)])],
              count_version)  # fmt: skip
        assert self.plan() == [START]
        return self.take({START: self._start_writes(value)})

    def _start_writes(self, value: Any) -> list[tuple[str, Any]]:
        return self.spec.nodes[START].collect(value)

    def plan(self) -> list[str]:
        origin = StepOrigin(self.spec, self.state.values, CHECKPOINT, "", self.step, 99)
        self.tasks = plan_tasks(self.spec, self.state, origin)
        return [task.name for task in self.tasks]

    def take(self, writes: dict[str, Any], *, reverse: bool = False) -> list[str]:
        """Apply one super-step. Each planned task writes the given values and its static edges."""
        for task in self.tasks:
            task.writes = writes.get(task.name, task.node.collect({}))
        tasks = list(reversed(self.tasks)) if reverse else self.tasks
        apply_writes(self.spec, self.state, tasks, count_version)
        self.step += 1
        return self.plan()


def stepper(graph: StateGraph) -> Stepper:
    return Stepper(graph.compile().spec)


def diamond(**options: Any) -> StateGraph:
    graph = StateGraph(Values)
    for name in "ab":
        graph.add_node(name, nothing).add_edge(START, name)
    graph.add_node("join", nothing, **options)
    return graph.add_edge(["a", "b"], "join")


def test_planner_starts_entry_nodes_after_input_is_applied() -> None:
    run = stepper(diamond())
    assert run.begin({"x": 1}) == ["a", "b"]
    assert run.state.values["x"] == 1


def test_planner_runs_join_node_once_after_all_its_source_nodes() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    assert run.take({}) == ["join"]
    assert run.take({}) == []


def test_planner_runs_join_node_only_after_its_slowest_source_node() -> None:
    graph = diamond()
    graph.add_node("late", nothing).add_edge("a", "late").add_node("join2", nothing)
    graph.add_edge(["b", "late"], "join2")
    run = stepper(graph)
    run.begin({"x": 1})
    assert run.take({}) == ["join", "late"]
    assert run.take({}) == ["join2"]


def test_planner_runs_deferred_node_after_all_other_nodes() -> None:
    graph = StateGraph(Values)
    for name in ("a", "b", "c"):
        graph.add_node(name, nothing)
    graph.add_node("last", nothing, defer=True)
    graph.add_edge(START, "a").add_edge("a", "last").add_edge("a", "b").add_edge("b", "c")
    run = stepper(graph)
    assert run.begin({"x": 1}) == ["a"]
    assert [run.take({}), run.take({}), run.take({})] == [["b"], ["c"], ["last"]]
    assert run.take({}) == []


def test_planner_runs_deferred_join_node_after_all_other_nodes() -> None:
    graph = diamond(defer=True)
    graph.add_node("other", nothing).add_edge("a", "other")
    run = stepper(graph)
    run.begin({"x": 1})
    assert run.take({}) == ["other"]
    assert run.take({}) == ["join"]
    assert run.take({}) == []


def test_planner_places_sends_in_order_before_triggered_nodes() -> None:
    graph = diamond().add_node("w", nothing)
    run = stepper(graph)
    run.begin({"x": 1})
    writes = [("__pregel_tasks", Send("w", 1)), ("__pregel_tasks", Send("w", 2))]
    planned = run.take({"a": [*writes, ("branch:to:b", None)]})
    assert planned == ["w", "w", "b"]
    assert [task.input for task in run.tasks[:2]] == [1, 2]
    assert [task.path for task in run.tasks[:2]] == [
        ("__pregel_push", 0, False),
        ("__pregel_push", 1, False),
    ]


def test_planner_runs_each_send_in_only_one_super_step() -> None:
    run = stepper(diamond().add_node("w", nothing))
    run.begin({"x": 1})
    run.take({"a": [("__pregel_tasks", Send("w", 1))]})
    assert run.take({}) == []


def test_channels_written_in_one_super_step_share_one_new_version() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    before = run.state.clock
    run.take({"a": [("x", 2), ("log", ["a"]), ("join:a+b:join", "a")]})
    assert run.state.clock == before + 1
    assert run.state.versions["x"] == run.state.versions["log"] == before + 1


def test_channel_versions_that_triggered_a_node_are_recorded_as_seen() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    version = run.state.versions["branch:to:a"]
    run.take({})
    assert run.state.seen["a"] == {"branch:to:a": version}


def test_branch_channel_not_written_in_super_step_is_cleared() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    assert "branch:to:a" in run.state.values
    run.take({})
    assert "branch:to:a" not in run.state.values


def test_write_to_unknown_channel_logs_warning_and_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    with caplog.at_level(logging.WARNING, "hitl_django"):
        run.take({"a": [("nowhere", 1)]})
    assert caplog.messages == ["Task a wrote to unknown channel nowhere; the write is ignored"]
    assert "nowhere" not in run.state.values


def test_two_writes_to_key_without_reducer_in_one_step_raise_invalid_update_error() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    with pytest.raises(InvalidUpdateError, match="At key 'x'"):
        run.take({"a": [("x", 1)], "b": [("x", 2)]})


def test_applying_input_writes_does_not_clear_branch_channels() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    apply_writes(run.spec, run.state, [InputWrites("__input__", [("x", 5)])], count_version)
    assert run.state.values["x"] == 5
    assert run.state.updated == {"x"}
    assert "branch:to:a" in run.state.values


def test_channel_state_copy_does_not_change_with_its_original() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    copy = run.state.copy()
    run.take({"a": [("x", 9)]})
    assert copy.values["x"] == 1
    assert "a" not in copy.seen
    assert copy.versions["x"] < run.state.versions["x"]


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.lists(st.integers(0, 9), max_size=2)),
        st.tuples(st.just("total"), st.integers(0, 9)),
        st.tuples(st.just("__pregel_tasks"), st.builds(Send, st.just("w"), st.integers(0, 9))),
    ),
    max_size=3,
)


@given(a=WRITES, b=WRITES, sent=st.lists(WRITES, max_size=3), data=st.data())
def test_channel_state_does_not_depend_on_task_completion_order(
    a: Any, b: Any, sent: Any, data: st.DataObject
) -> None:
    graph = StateGraph(Values).add_node("w", nothing)
    for name in "ab":
        graph.add_node(name, nothing).add_edge(START, name)
    spec = graph.compile().spec

    def after(order: list[int] | None) -> Any:
        run = Stepper(spec)
        run.begin({"x": 1})
        run.take({"a": [("__pregel_tasks", Send("w", i)) for i in range(len(sent))] +
                  [("branch:to:a", None), ("branch:to:b", None)]})  # fmt: skip
        given_writes = [*sent, a, b]
        for task, writes in zip(run.tasks, given_writes, strict=True):
            task.writes = writes
        tasks = run.tasks if order is None else [run.tasks[position] for position in order]
        apply_writes(spec, run.state, tasks, count_version)
        run.step += 1
        planned = [
            (task.name, task.path, task.input, task.id) for task in (run.plan(), run.tasks)[1]
        ]
        return run.state.values, run.state.versions, run.state.seen, run.state.updated, planned

    order = data.draw(st.permutations(range(len(sent) + 2)))
    assert after(order) == after(None)


def test_writes_of_twelve_sends_are_applied_in_send_order_for_any_completion_order() -> None:
    graph = StateGraph(Values).add_node("a", nothing).add_edge(START, "a").add_node("w", nothing)
    spec = graph.compile().spec
    for order in itertools.islice(itertools.permutations(range(12)), 0, 5000, 997):
        run = Stepper(spec)
        run.begin({"x": 1})
        run.take({"a": [("__pregel_tasks", Send("w", i)) for i in range(12)]})
        for number, task in enumerate(run.tasks):
            task.writes = [("log", [number])]
        apply_writes(spec, run.state, [run.tasks[i] for i in order], count_version)
        assert run.state.values["log"] == list(range(12))


def test_planning_same_channel_state_twice_gives_equal_task_ids() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    once = [task.id for task in run.tasks]
    run.plan()
    assert [task.id for task in run.tasks] == once


def test_find_breakpoints_returns_no_tasks_if_channels_did_not_change_since_last_stop() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    assert [task.name for task in find_breakpoints(run.state, ["a"], run.tasks)] == ["a"]
    assert len(find_breakpoints(run.state, "*", run.tasks)) == 2
    assert find_breakpoints(run.state, ["join"], run.tasks) == []
    assert find_breakpoints(run.state, (), run.tasks) == []
    run.state.seen["__interrupt__"] = {"__interrupt__": run.state.clock}
    assert find_breakpoints(run.state, "*", run.tasks) == []


def test_channels_restored_from_checkpoint_plan_the_same_tasks() -> None:
    run = stepper(diamond())
    run.begin({"x": 1})
    checkpoint: Any = {
        "v": 4,
        "channel_values": list_durable_values(run.spec, run.state),
        "channel_versions": dict(run.state.versions),
        "versions_seen": dict(run.state.seen),
        "updated_channels": sorted(run.state.updated or ()),
    }
    twin = Stepper(run.spec)
    twin.state, twin.step = restore_channels(run.spec, checkpoint), run.step
    assert twin.plan() == run.plan() == ["a", "b"]
    assert twin.take({}) == run.take({})


def test_planner_with_empty_channel_state_plans_no_tasks() -> None:
    run = stepper(diamond())
    assert run.plan() == []
    assert isinstance(run.state, ChannelState)


def test_saver_get_next_version_increases_and_differs_between_branches() -> None:
    saver = BaseCheckpointSaver()
    versions = list(itertools.accumulate(range(50), lambda v, _: saver.get_next_version(v, None),
                                         initial=None))[1:]  # fmt: skip
    assert versions == sorted(set(versions))
    assert len({saver.get_next_version(versions[0], None) for _ in range(20)}) > 1


def test_planner_repeats_node_with_edge_to_itself_until_node_writes_no_trigger() -> None:
    graph = StateGraph(Values).add_node("a", nothing).add_edge(START, "a").add_edge("a", "a")
    run = stepper(graph)
    assert run.begin({"x": 1}) == ["a"]
    assert [run.take({}), run.take({}), run.take({"a": []})] == [["a"], ["a"], []]
    assert END not in run.state.values


def test_failed_reducer_leaves_all_channels_unchanged() -> None:
    graph = StateGraph(Values).add_node("a", nothing).add_node("b", nothing)
    graph.add_edge(START, "a").add_edge(START, "b")
    run = Stepper(graph.compile().spec)
    assert run.begin({"x": 1, "total": 1}) == ["a", "b"]
    before = run.state.copy()
    for task, writes in zip(run.tasks, ([("x", 2)], [("total", "text")]), strict=True):
        task.writes = writes
    assert run.spec.is_atomic
    with pytest.raises(TypeError):
        apply_writes(run.spec, run.state, run.tasks, count_version)
    for name in ("values", "versions", "seen", "clock", "updated"):
        assert getattr(run.state, name) == getattr(before, name)
