"""submit and advance: resumption from the stored state after an interruption at any point."""

from __future__ import annotations

import threading
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.engine.constants import INTERRUPT
from hitl_django.engine.errors import (
    EmptyInputError,
    PendingInterruptsError,
    ThreadNotFound,
    UnserializableError,
)
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import Commit, Outcome
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import Send

from .crashing import Crash, Frail, store_answer
from .graphs import CONFIG, State, asks, line, log_of, open_interrupts, saved, says, side_by_side


class Counted:
    """Nodes that count how often each has finished."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def node(self, name: str, ask: bool = False) -> Any:
        def run(state: State) -> dict[str, Any]:
            given = [interrupt(f"{name}?")] if ask else []
            self.ended.append(name)
            return {"log": [name, *given]}

        return run


def shape_line(counted: Counted) -> StateGraph:
    return line(a=counted.node("a"), b=counted.node("b"), c=counted.node("c"))


def shape_asking(counted: Counted) -> StateGraph:
    return line(a=counted.node("a"), b=counted.node("b", ask=True), c=counted.node("c"))


def shape_parallel(counted: Counted) -> StateGraph:
    graph = side_by_side(a=counted.node("a"), b=counted.node("b", ask=True), c=counted.node("c"))
    return graph.add_node("z", counted.node("z")).add_edge(["a", "b", "c"], "z")


def shape_child(counted: Counted) -> StateGraph:
    child = line(ca=counted.node("ca"), cb=counted.node("cb", ask=True), cc=counted.node("cc"))
    inner = child.compile()
    graph = line(p=counted.node("p"))
    graph.add_node("sub", lambda state: {"log": inner.invoke({"log": []})["log"]})
    return graph.add_edge("p", "sub").add_node("q", counted.node("q")).add_edge("sub", "q")


def shape_sends(counted: Counted) -> StateGraph:
    graph = line(a=counted.node("a")).add_node("w", lambda arg: {"log": [arg]})
    graph.add_conditional_edges("a", lambda s: [Send("w", i) for i in range(3)], ["w"])
    return graph.add_node("z", counted.node("z", ask=True)).add_edge("w", "z")


SHAPES = [shape_line, shape_asking, shape_parallel, shape_child, shape_sends]


def played(graph: Pregel, saver: Frail) -> int:
    """Run a thread to its end like a worker, and return the number of crashes."""
    crashes = 0
    submitted = False
    outcome: Outcome | None = None
    for _ in range(20):
        try:
            if not submitted:
                graph.submit({"x": 1}, CONFIG)
                submitted = True
            outcome = graph.advance(CONFIG)
        except Crash:
            crashes += 1
            if not submitted:
                submitted = saver.get_tuple(CONFIG) is not None
            continue
        assert outcome.status in ("finished", "interrupted")
        if outcome.status == "finished":
            return crashes
        for number in range(len(outcome.pending_interrupts)):
            store_answer(graph, outcome, "yes", number)
    raise AssertionError("The run came to no end.")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_run_crashed_at_any_commit_ends_with_same_state_as_uncrashed_run(
    shape: Any, after: bool
) -> None:
    calm, calm_counted = Frail(), Counted()
    whole = saved(shape(calm_counted), calm)
    played(whole, calm)
    for crash_at in range(1, calm.count + 1):
        saver, counted = Frail(), Counted()
        saver.crash_at, saver.crash_after = crash_at, after
        graph = saved(shape(counted), saver)
        # The number of commits of parallel tasks depends on the order in which they end.
        assert played(graph, saver) == (saver.count >= crash_at)
        assert graph.get_state(CONFIG).values == whole.get_state(CONFIG).values
        assert graph.get_state(CONFIG).next == ()
        again = sorted(set(counted.ended), key=counted.ended.index)
        assert set(again) == set(calm_counted.ended)
        # At most the tasks of the lost step ran twice, except tasks with stored writes.
        twice = [name for name in again if counted.ended.count(name) > 1]
        assert len(counted.ended) - len(calm_counted.ended) == len(twice) <= 3
        if after:
            assert len(twice) <= 1


def test_task_with_writes_stored_before_crash_does_not_run_again() -> None:
    saver, counted = Frail(), Counted()
    other_done = threading.Event()

    def slow(state: State) -> dict[str, Any]:
        other_done.wait(60)
        return {"log": ["slow"]}

    def fast(state: State) -> dict[str, Any]:
        counted.ended.append("fast")
        return {"log": ["fast"]}

    class Telling(Frail):
        def commit(self, commit: Commit) -> None:
            super().commit(commit)
            if any(value == ["fast"] for task in commit.writes for _, value in task.writes):
                other_done.set()
                raise Crash

    saver = Telling()
    graph = saved(side_by_side(fast=fast, slow=slow), saver)
    graph.submit({"x": 1}, CONFIG)
    with pytest.raises(Crash):
        graph.advance(CONFIG)
    assert graph.advance(CONFIG).status == "finished"
    assert (log_of(graph), counted.ended) == (["fast", "slow"], ["fast"])


def test_submit_stores_input_and_first_checkpoint_without_running_a_node() -> None:
    saver, counted = Frail(), Counted()
    graph = saved(shape_line(counted), saver)
    checkpoint_id = graph.submit({"x": 1}, CONFIG)
    assert (saver.count, counted.ended) == (2, [])
    assert saver.get_tuple(CONFIG).checkpoint["id"] == checkpoint_id  # type: ignore[union-attr]
    found = graph.get_state(CONFIG)
    assert (found.values["x"], found.next, found.metadata["step"]) == (1, ("a",), 0)
    assert [one.next for one in graph.get_state_history(CONFIG)] == [("a",), ("__start__",)]


def refuse_bad(old: list[str], new: list[str]) -> list[str]:
    if "bad" in new:
        raise ValueError("refused")
    return old + new


class Refusing(TypedDict):
    log: Annotated[list[str], refuse_bad]


def test_submit_with_input_failing_in_reducer_succeeds_and_advance_fails() -> None:
    graph = saved(StateGraph(Refusing).add_node("a", says("a")).add_edge("__start__", "a"))
    graph.submit({"log": ["bad"]}, CONFIG)
    assert graph.get_state(CONFIG).next == ("__start__",)
    outcome = graph.advance(CONFIG)
    assert (outcome.status, str(outcome.error)) == ("failed", "refused")


def test_submit_does_not_call_conditional_branch_from_start() -> None:
    def choose(state: Any) -> str:
        raise AssertionError("asked too early")

    graph = StateGraph(State).add_node("a", says("a"))
    app = saved(graph.add_conditional_edges("__start__", choose, ["a"]))
    app.submit({"x": 1}, CONFIG)
    assert app.get_state(CONFIG).next == ("__start__",)


def test_submit_without_input_raises_empty_input_error_and_stores_no_checkpoint() -> None:
    saver = Frail()
    with pytest.raises(EmptyInputError):
        saved(shape_line(Counted()), saver).submit(None, CONFIG)
    assert saver.count == 0


def test_submit_at_interrupt_raises_pending_interrupts_error_unless_discard_pending_is_set() -> (
    None
):
    graph = saved(line(a=asks("q")))
    graph.submit({"x": 1}, CONFIG)
    graph.advance(CONFIG)
    with pytest.raises(PendingInterruptsError):
        graph.submit({"x": 2}, CONFIG)
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    graph.submit({"x": 2}, discarding)
    assert graph.advance(CONFIG).status == "interrupted"
    assert graph.get_state(CONFIG).values["x"] == 2


def test_advance_of_thread_without_checkpoint_raises_thread_not_found() -> None:
    with pytest.raises(ThreadNotFound, match="'thread' has no checkpoint"):
        saved(line(a=says("a"))).advance(CONFIG)


def test_advance_of_finished_thread_stores_no_checkpoint_and_runs_no_node() -> None:
    counted = Counted()
    graph = saved(shape_line(counted))
    graph.submit({"x": 1}, CONFIG)
    assert graph.advance(CONFIG).status == "finished"
    before = list(graph.get_state_history(CONFIG))
    assert graph.advance(CONFIG).status == "finished"
    assert list(graph.get_state_history(CONFIG)) == before
    assert counted.ended == ["a", "b", "c"]


def test_advance_without_response_returns_the_same_pending_interrupt() -> None:
    graph = saved(line(a=asks("q")))
    graph.submit({"x": 1}, CONFIG)
    first, second = graph.advance(CONFIG), graph.advance(CONFIG)
    assert first.pending_interrupts == second.pending_interrupts
    assert [interrupt.interrupt.value for interrupt in first.pending_interrupts] == ["q"]


def test_pending_interrupt_has_task_checkpoint_and_index_for_storing_its_response() -> None:
    graph = saved(line(a=says("a"), b=asks("one", "two")))
    graph.submit({"x": 1}, CONFIG)
    [interrupt] = graph.advance(CONFIG).pending_interrupts
    [task] = graph.get_state(CONFIG).tasks
    assert (interrupt.node, interrupt.task_id, interrupt.kind) == ("b", task.id, "interrupt")
    assert (
        interrupt.checkpoint_id == graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    )
    assert (interrupt.index, interrupt.checkpoint_ns) == (0, "")
    store_answer(graph, graph.advance(CONFIG), "1")
    assert [interrupt.index for interrupt in graph.advance(CONFIG).pending_interrupts] == [1]


def test_advance_uses_stored_response_while_another_interrupt_is_pending() -> None:
    graph = saved(side_by_side(a=asks("qa"), b=asks("qb")))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    store_answer(graph, outcome, "B", 1)
    outcome = graph.advance(CONFIG)
    assert [interrupt.interrupt.value for interrupt in outcome.pending_interrupts] == ["qa"]
    store_answer(graph, outcome, "A")
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["A", "B"]


def test_response_stored_in_subgraph_namespace_resumes_its_interrupt() -> None:
    child = line(c=asks("child?")).compile()
    graph = saved(line(a=says("a"), sub=lambda s: {"log": child.invoke({"log": []})["log"]}))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert outcome.pending_interrupts[0].checkpoint_ns.startswith("sub:")
    store_answer(graph, outcome, "yes")
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["a", "yes"]


def test_advance_of_failing_node_returns_failed_outcome_and_next_advance_retries_node() -> None:
    calls = []

    def flaky(state: State) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return {"log": ["b"]}

    graph = saved(line(a=says("a"), b=flaky))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert (outcome.status, repr(outcome.error)) == ("failed", "OSError('down')")
    assert outcome.next == ("b",)
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["a", "b"]


def test_advance_at_recursion_limit_returns_out_of_steps_outcome() -> None:
    graph = saved(line(a=says("a")).add_edge("a", "a"))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance({**CONFIG, "recursion_limit": 3})
    assert outcome.status == "out_of_steps"
    assert "Recursion limit of 3 reached" in str(outcome.error)


def test_drain_request_stops_run_between_steps_and_next_advance_finishes_run() -> None:
    control = RunControl()
    counted = Counted()

    def leaving(state: State) -> dict[str, Any]:
        control.request_drain("shutdown")
        return {"log": ["a"]}

    graph = saved(line(a=leaving, b=counted.node("b")))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG, control=control)
    assert (outcome.status, outcome.next, counted.ended) == ("drained", ("b",), [])
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["a", "b"]


def test_advance_stores_its_outcome_only_in_the_last_commit() -> None:
    for shape in SHAPES:
        saver = Frail()
        graph = saved(shape(Counted()), saver)
        graph.submit({"x": 1}, CONFIG)
        saver.outcomes.clear()
        outcome = graph.advance(CONFIG)
        assert saver.outcomes[-1] == outcome
        assert saver.outcomes[:-1] == [None] * (len(saver.outcomes) - 1)


# Faults between two super-steps are failures of the run, not of the process.


class Strict(pydantic.BaseModel):
    x: int = 0


FAULTS = {
    "two writes to one key": (
        lambda counted: side_by_side(a=says("a", x=1), b=says("b", x=2)),
        "Can receive only one value per step",
    ),
    "a value that can't be stored": (
        lambda counted: side_by_side(a=says("a", x=threading.Lock()), b=counted.node("b")),
        "lock",
    ),
    "an input that doesn't fit": (
        lambda counted: (
            line(a=counted.node("a"), b=says("b", x="bad"))
            .add_node("c", lambda state: None, input_schema=Strict)
            .add_edge("b", "c")
        ),
        "valid integer",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_exception_between_super_steps_returns_failed_outcome_without_rerunning_tasks(
    name: str,
) -> None:
    build, message = FAULTS[name]
    counted = Counted()
    graph = saved(build(counted))
    graph.submit({"x": 1}, CONFIG)
    for _ in range(3):
        outcome = graph.advance(CONFIG)
        assert outcome.status == "failed"
        assert message in str(outcome.error)
        assert graph.get_state(CONFIG).values["x"] in (1, "bad")
    # Finished tasks stay finished, regardless of the number of attempts.
    assert len(counted.ended) == len(set(counted.ended))


def test_run_answered_by_stored_response_accepts_command_resume_for_next_interrupt() -> None:
    graph = saved(line(a=asks("one", "two")))
    graph.submit({"x": 1}, CONFIG)
    store_answer(graph, graph.advance(CONFIG), "1")
    graph.advance(CONFIG)
    assert list(open_interrupts(graph)) == ["two"]
    assert graph.invoke(Command(resume="2"), CONFIG)["log"] == ["1", "2"]
    assert INTERRUPT not in graph.get_state(CONFIG).values


def calling(child: Any) -> Any:
    return lambda state: {"log": child.invoke({"log": []})["log"]}


def test_drain_request_in_subgraph_returns_drained_outcome_without_task_error() -> None:
    control = RunControl()

    def leaving(state: State) -> dict[str, Any]:
        control.request_drain("shutdown")
        return {"log": ["c1"]}

    child = line(c1=leaving, c2=says("c2")).compile()
    graph = saved(line(a=calling(child), b=says("b")))
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG, control=control)
    assert (outcome.status, outcome.next) == ("drained", ("a",))
    assert [task.error for task in graph.get_state(CONFIG).tasks] == [None]
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["c1", "c2", "b"]


@pytest.mark.parametrize("build", [line, side_by_side])
def test_saver_exception_in_subgraph_is_raised_and_not_stored_as_task_error(build: Any) -> None:
    class Gone(InMemorySaver):
        armed = False

        def commit(self, commit: Commit) -> None:
            if self.armed and commit.config["configurable"]["checkpoint_ns"]:
                self.armed = False
                raise OSError("database gone")
            super().commit(commit)

    saver = Gone()
    child = line(c1=says("c1"), c2=says("c2")).compile()
    graph = saved(build(a=calling(child), b=says("b")), saver)
    graph.submit({"x": 1}, CONFIG)
    saver.armed = True
    with pytest.raises(OSError, match="database gone"):
        graph.advance(CONFIG)
    assert all(task.error is None for task in graph.get_state(CONFIG).tasks)
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["c1", "c2", "b"]


def test_unstorable_task_value_fails_run_but_finished_sibling_writes_are_stored() -> None:
    tried = threading.Event()

    class Telling(InMemorySaver):
        def commit(self, commit: Commit) -> None:
            try:
                super().commit(commit)
            except UnserializableError:
                tried.set()
                raise

    def slow(state: State) -> dict[str, Any]:
        # The parallel task's writes are rejected while the task is still running.
        assert tried.wait(60)
        return {"log": ["slow"]}

    graph = StateGraph(State).add_node("first", says("first"))
    graph.add_node("bad", says("bad", x=threading.Lock())).add_node("slow", slow)
    graph.add_edge(START, "first").add_edge("first", "bad").add_edge("first", "slow")
    stored = graph.compile(checkpointer=Telling())
    stored.submit({"x": 1}, CONFIG)
    outcome = stored.advance(CONFIG)
    assert (outcome.status, outcome.next) == ("failed", ("bad", "slow"))
    assert "Node 'bad'" in str(outcome.error)
    assert log_of(stored) == ["first", "slow"]
