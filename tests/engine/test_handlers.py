"""Error handlers: a failure is stored and handled, and its node doesn't run again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest

from hitl_django import END, START, Command, StateGraph, interrupt, once
from hitl_django.engine.constants import ERROR, ERROR_SOURCE_NODE
from hitl_django.engine.errors import GraphDrained
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import NodeError, RetryPolicy

from .crashing import Crash, Frail, store_answer
from .graphs import CONFIG, State, log_of, open_interrupts, saved, says


def invoked(graph: Pregel, value: Any, **options: Any) -> Any:
    return graph.invoke(value, CONFIG, **options)


def ainvoked(graph: Pregel, value: Any, **options: Any) -> Any:
    return asyncio.run(graph.ainvoke(value, CONFIG, **options))


WAYS = pytest.mark.parametrize("run", [invoked, ainvoked])
Run = Callable[..., Any]


class Fault:
    """Node and handler that count their calls and may fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.handler_fails = 0

    def node(self, state: State) -> None:
        self.calls.append("node")
        raise ValueError("no")

    def handler(self, state: State, error: NodeError) -> dict[str, Any]:
        self.calls.append("handler")
        if self.handler_fails:
            self.handler_fails -= 1
            raise OSError("the handler is down")
        return {"log": [f"{error.node}: {error.error}"]}

    def graph(self) -> StateGraph:
        graph = StateGraph(State)
        graph.add_node("a", self.node, error_handler=self.handler).add_node("z", says("z"))
        return graph.add_edge(START, "a").add_edge("a", "z")


@WAYS
def test_run_whose_node_failure_is_handled_finishes_with_handler_update(run: Run) -> None:
    fault = Fault()
    saver = Frail()
    graph = saved(fault.graph(), saver)
    assert run(graph, {"x": 1})["log"] == ["a: no"]
    assert [outcome.status for outcome in saver.outcomes if outcome] == ["finished"]
    assert fault.calls == ["node", "handler"]
    assert graph.get_state(CONFIG).next == ()


def test_node_failure_is_stored_with_node_name_before_its_error_handler_starts() -> None:
    graph: Any = None
    found: list[Any] = []

    def handler(state: State) -> None:
        writes = graph.checkpointer.get_tuple(CONFIG).pending_writes
        found.extend((channel, value) for _, channel, value in writes)

    graph = saved(
        StateGraph(State).add_node("a", Fault().node, error_handler=handler).add_edge(START, "a")
    )
    graph.invoke({"x": 1}, CONFIG)
    assert found == [(ERROR_SOURCE_NODE, ["a", "no"]), (ERROR, "ValueError('no')")]


def crashed_at(number: int, after: bool) -> tuple[Fault, list[str], Any]:
    """Run a graph whose process dies at a commit, then goes on; returns what ran before, and
    the state at the end."""
    fault, saver = Fault(), Frail()
    graph = saved(fault.graph(), saver)
    saver.crash_at, saver.crash_after = number, after
    with pytest.raises(Crash):
        graph.invoke({"x": 1}, CONFIG)
    before, fault.calls = fault.calls, []
    saver.crash_at = None
    outcome = graph.advance(CONFIG) if graph.checkpointer.get_tuple(CONFIG) else None
    assert outcome is None or outcome.status == "finished"
    return fault, before, graph.get_state(CONFIG).values


def test_crash_after_node_failure_is_stored_runs_only_error_handler_again() -> None:
    # 1: the input, 2: what START wrote, 3: the failure, 4: what the handler wrote.
    fault, before, values = crashed_at(3, after=True)
    assert (before, fault.calls) == (["node"], ["handler"])
    assert values["log"] == ["a: no"]


def test_crash_before_handler_result_is_stored_runs_only_error_handler_again() -> None:
    fault, before, values = crashed_at(4, after=False)
    assert (before, fault.calls) == (["node", "handler"], ["handler"])
    assert values["log"] == ["a: no"]


def test_crash_before_node_failure_is_stored_runs_node_and_handler_again() -> None:
    fault, before, values = crashed_at(3, after=False)
    assert (before, fault.calls) == (["node"], ["node", "handler"])
    assert values["log"] == ["a: no"]


def test_crash_after_handler_result_is_stored_runs_neither_node_nor_handler_again() -> None:
    fault, before, values = crashed_at(4, after=True)
    assert (before, fault.calls) == (["node", "handler"], [])
    assert values["log"] == ["a: no"]


@WAYS
def test_failed_error_handler_fails_run_and_retry_runs_only_the_handler(run: Run) -> None:
    fault = Fault()
    fault.handler_fails = 2
    graph = saved(fault.graph())
    for value in ({"x": 1}, None):
        with pytest.raises(OSError, match="the handler is down") as raised:
            run(graph, value)
        assert any("'__error_handler__a'" in note for note in raised.value.__notes__)
        state = graph.get_state(CONFIG)
        assert state.next == ("a",)
        assert [(task.name, task.error) for task in state.tasks] == [("a", "ValueError('no')")]
    assert run(graph, None)["log"] == ["a: no"]
    assert fault.calls == ["node", *["handler"] * 3]


def test_node_failure_stored_in_langgraph_format_is_passed_to_error_handler() -> None:
    fault = Fault()
    graph = saved(fault.graph(), interrupt_before=["a"])
    graph.invoke({"x": 1}, CONFIG)
    state = graph.get_state(CONFIG)
    theirs = [(ERROR, "ValueError('no')"), (ERROR_SOURCE_NODE, "a")]
    graph.checkpointer.put_writes(state.config, theirs, state.tasks[0].id)
    assert graph.invoke(None, CONFIG)["log"] == ["a: ValueError('no')"]
    assert fault.calls == ["handler"]


def test_failed_node_runs_again_if_its_error_handler_was_removed() -> None:
    fault = Fault()
    fault.handler_fails = 1
    graph = saved(fault.graph())
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG)
    mended = StateGraph(State).add_node("a", says("mended")).add_node("b", says("b"))
    mended.add_edge(START, "a").add_edge("a", "b")
    assert saved(mended, graph.checkpointer).invoke(None, CONFIG)["log"] == ["mended", "b"]


def test_node_rerun_after_handler_removal_is_not_run_again_on_resume() -> None:
    fault = Fault()
    fault.handler_fails = 1
    saver = Frail()

    def graph_of(node: Any, handler: Any, other: Any) -> Pregel:
        graph = StateGraph(State).add_node("a", node, error_handler=handler)
        return saved(graph.add_node("b", other).add_edge(START, "a").add_edge(START, "b"), saver)

    with pytest.raises(OSError, match="down"):
        graph_of(fault.node, fault.handler, says("b")).invoke({"x": 1}, CONFIG)
    mended: list[int] = []

    def counted(state: State) -> dict[str, Any]:
        mended.append(1)
        return {"log": ["mended"]}

    def asking(state: State) -> dict[str, Any]:
        return {"log": [interrupt("q")]}

    graph = graph_of(counted, None, asking)
    graph.update_state(CONFIG, None, END)
    graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(Command(resume="yes"), CONFIG)["log"][-2:] == ["mended", "yes"]
    assert mended == [1]


# Parallel nodes.


@WAYS
def test_error_handler_starts_while_sibling_nodes_are_still_running(run: Run) -> None:
    handled = threading.Event()

    def sibling(state: State) -> dict[str, Any]:
        assert handled.wait(60)
        return {"log": ["b"]}

    def handler(state: State) -> dict[str, Any]:
        handled.set()
        return {"log": ["handled"]}

    graph = StateGraph(State).add_node("a", Fault().node, error_handler=handler)
    graph.add_node("b", sibling).add_edge(START, "a").add_edge(START, "b")
    assert run(saved(graph), {"x": 1})["log"] == ["handled", "b"]


def test_error_handler_does_not_start_after_unhandled_failure_of_sibling() -> None:
    failed, fault = threading.Event(), Fault()

    class Tells(InMemorySaver):
        def commit(self, commit: Any) -> None:
            super().commit(commit)
            if any(name == ERROR for task in commit.writes for name, _ in task.writes):
                failed.set()

    def late(state: State) -> None:
        assert failed.wait(60)
        fault.node(state)

    def bad(state: State) -> None:
        if not failed.is_set():
            raise KeyError("unhandled")

    graph = StateGraph(State).add_node("a", late, error_handler=fault.handler)
    compiled = saved(graph.add_node("b", bad).add_edge(START, "a").add_edge(START, "b"), Tells())
    with pytest.raises(KeyError, match="unhandled"):
        compiled.invoke({"x": 1}, CONFIG)
    assert fault.calls == ["node"]
    compiled.invoke(None, CONFIG)
    assert fault.calls == ["node", "handler"]


@WAYS
def test_unhandled_node_failure_fails_run_although_sibling_failure_is_handled(run: Run) -> None:
    fault = Fault()

    def bad(state: State) -> None:
        raise KeyError("unhandled")

    graph = saved(fault.graph().add_node("b", bad).add_edge(START, "b"))
    with pytest.raises(KeyError, match="unhandled"):
        run(graph, {"x": 1})
    with pytest.raises(KeyError, match="unhandled"):
        run(graph, None)
    assert fault.calls.count("node") == 1


@WAYS
def test_interrupt_of_sibling_is_the_only_pending_task_after_handled_node_failure(run: Run) -> None:
    fault = Fault()
    asking = fault.graph().add_node("b", lambda state: {"log": [interrupt("q")]})
    graph = saved(asking.add_edge(START, "b"))
    assert run(graph, {"x": 1})["log"] == ["a: no"]
    state = graph.get_state(CONFIG)
    assert (state.next, state.values["log"]) == (("b",), ["a: no"])
    assert run(graph, Command(resume="yes"))["log"] == ["a: no", "yes"]
    assert fault.calls == ["node", "handler"]


def test_update_state_while_sibling_is_interrupted_preserves_error_handler_writes() -> None:
    fault = Fault()
    asking = fault.graph().add_node("b", lambda state: {"log": [interrupt("q")]})
    graph = saved(asking.add_edge(START, "b"))
    graph.invoke({"x": 1}, CONFIG)
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    graph.update_state(discarding, {"log": ["by hand"]}, "b")
    assert graph.get_state(CONFIG).values["log"] == ["a: no", "by hand"]
    assert graph.get_state(CONFIG).next == ()


@WAYS
def test_eight_parallel_node_failures_are_each_handled_by_their_handler(run: Run) -> None:
    graph = StateGraph(State)
    for name in "abcdefgh":
        fault = Fault()
        graph.add_node(name, fault.node, error_handler=fault.handler).add_edge(START, name)
    assert run(saved(graph), {"x": 1})["log"] == [f"{name}: no" for name in "abcdefgh"]


# Interrupts.


def asking_handler(state: State, error: NodeError) -> dict[str, Any]:
    return {"log": [interrupt(f"{error.node} failed: {error.error} {error.error!r}")]}


def handled_by_a_person() -> StateGraph:
    graph = StateGraph(State).add_node("a", Fault().node, error_handler=asking_handler)
    return graph.add_edge(START, "a")


def test_interrupt_raised_by_error_handler_is_pending_until_answered() -> None:
    graph = saved(handled_by_a_person())
    graph.invoke({"x": 1}, CONFIG)
    assert list(open_interrupts(graph)) == ["a failed: no ValueError('no')"]
    with pytest.raises(RuntimeError, match="has pending interrupts"):
        graph.update_state(CONFIG, {"x": 2}, "a")
    assert graph.invoke(Command(resume="ignore it"), CONFIG)["log"] == ["ignore it"]
    assert open_interrupts(graph) == {}


def test_answered_interrupt_of_failed_node_is_not_pending_while_handler_interrupt_is_pending() -> (
    None
):
    def node(state: State) -> None:
        raise ValueError(interrupt("why?"))

    graph = StateGraph(State).add_node("a", node, error_handler=asking_handler)
    compiled = saved(graph.add_edge(START, "a"))
    compiled.invoke({"x": 1}, CONFIG)
    compiled.invoke(Command(resume="so"), CONFIG)
    assert list(open_interrupts(compiled)) == ["a failed: so ValueError('so')"]
    assert compiled.invoke(Command(resume="ignore it"), CONFIG)["log"] == ["ignore it"]


def test_response_stored_for_interrupt_of_error_handler_resumes_the_handler() -> None:
    graph = saved(handled_by_a_person())
    graph.submit({"x": 1}, CONFIG)
    outcome: Outcome = graph.advance(CONFIG)
    assert (outcome.status, outcome.next) == ("interrupted", ("a",))
    store_answer(graph, outcome, "go on")
    # The interrupt names the failure. The failure has been stored meanwhile, and its text is the
    # same.
    strict = {"configurable": {**CONFIG["configurable"], "on_interrupt_change": "error"}}
    assert graph.advance(strict).status == "finished"
    assert log_of(graph) == ["go on"]


def test_once_in_error_handler_runs_once_across_its_interrupt() -> None:
    done: list[str] = []

    def handler(state: State) -> dict[str, Any]:
        once("tell", done.append, "told")
        return {"log": [interrupt("and now?")]}

    graph = StateGraph(State).add_node("a", Fault().node, error_handler=handler)
    graph = saved(graph.add_edge(START, "a"))
    graph.invoke({"x": 1}, CONFIG)
    graph.invoke(Command(resume="nothing"), CONFIG)
    assert done == ["told"]


def test_error_handler_receives_unprintable_exception_as_text_with_its_type() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

        __repr__ = __str__

    def node(state: State) -> None:
        raise Unprintable

    def handler(state: State, error: NodeError) -> dict[str, Any]:
        return {"log": [interrupt("what now?"), f"{error.error}"]}

    graph = saved(StateGraph(State).add_node("a", node, error_handler=handler).add_edge(START, "a"))
    graph.invoke({"x": 1}, CONFIG)
    log = graph.invoke(Command(resume="go on"), CONFIG)["log"]
    assert log == ["go on", "Unprintable(), which can't be displayed"]


def test_drain_request_in_subgraph_does_not_call_error_handler() -> None:
    control = RunControl()

    def drains(state: State) -> None:
        control.request_drain("deploy")

    below = StateGraph(State).add_node("k", drains).add_node("l", says("l"))
    below.add_edge(START, "k").add_edge("k", "l")
    fault = Fault()
    graph = StateGraph(State).add_node("a", below.compile(), error_handler=fault.handler)
    graph = saved(graph.add_edge(START, "a"))
    with pytest.raises(GraphDrained):
        graph.invoke({"x": 1}, CONFIG, control=control)
    assert graph.invoke(None, CONFIG)["log"] == ["l"]
    assert fault.calls == []


def test_exception_in_conditional_branch_is_passed_to_error_handler_of_its_node() -> None:
    def choose(state: State) -> str:
        raise ZeroDivisionError("by the branch")

    graph = StateGraph(State).add_node("a", says("a"), error_handler=Fault().handler)
    graph.add_edge(START, "a").add_conditional_edges("a", choose, ["a"])
    assert saved(graph).invoke({"x": 1}, CONFIG)["log"] == ["a: by the branch"]


# Without a saver, and with one that stores only at the exit.


@WAYS
def test_node_failure_without_checkpointer_is_passed_to_error_handler(run: Run) -> None:
    assert run(Fault().graph().compile(), {"x": 1})["log"] == ["a: no"]


@WAYS
def test_node_failure_with_exit_durability_is_passed_to_error_handler_on_retry(run: Run) -> None:
    fault = Fault()
    fault.handler_fails = 1
    graph = saved(fault.graph())
    with pytest.raises(OSError, match="down"):
        run(graph, {"x": 1}, durability="exit")
    assert run(graph, None, durability="exit")["log"] == ["a: no"]
    assert fault.calls == ["node", "handler", "handler"]


# Names and defaults.


def test_node_named_like_generated_error_handler_raises_value_error() -> None:
    graph = StateGraph(State).add_node("a", says("a"), error_handler=says("h"))
    with pytest.raises(ValueError, match="Node `__error_handler__a` already present"):
        graph.add_node("__error_handler__a", says("mine"))
    mine = StateGraph(State).add_node("__error_handler__a", says("mine"))
    with pytest.raises(ValueError, match="needs the node name `__error_handler__a`"):
        mine.add_node("a", says("a"), error_handler=says("h"))
    default = StateGraph(State).add_node("__default_error_handler__", says("mine"))
    default.add_edge(START, "__default_error_handler__")
    assert default.compile().invoke({"x": 1})["log"] == ["mine"]
    default.set_node_defaults(error_handler=says("h"))
    with pytest.raises(ValueError, match="needs the node name `__default_error_handler__`"):
        default.compile()


def test_compile_fails_if_error_handler_command_names_unknown_node() -> None:
    def handler(state: State) -> Command[Literal["nowhere"]]:
        return Command(goto="nowhere")

    said = "At '__error_handler__a' node, its Command names unknown target 'nowhere'"
    graph = StateGraph(State).add_node("a", says("a"), error_handler=handler).add_edge(START, "a")
    with pytest.raises(ValueError, match=said):
        graph.compile()


def test_set_node_defaults_with_none_leaves_previous_defaults_unchanged() -> None:
    graph = StateGraph(State).add_node("a", Fault().node).add_edge(START, "a")
    graph.set_node_defaults(error_handler=says("handled"), retry_policy=RetryPolicy(max_attempts=7))
    node = graph.set_node_defaults(retry_policy=None).compile().nodes["a"]
    assert (node.handler, node.retry[0].max_attempts) == ("__default_error_handler__", 7)


def test_exception_in_retry_on_predicate_fails_the_task() -> None:
    def undecided(error: Exception) -> bool:
        raise KeyError("undecided")

    retry = RetryPolicy(retry_on=undecided)
    graph = StateGraph(State).add_node("a", Fault().node, retry_policy=retry).add_edge(START, "a")
    graph = saved(graph)
    graph.submit({"x": 1}, CONFIG)
    outcome = graph.advance(CONFIG)
    assert (outcome.status, str(outcome.error)) == ("failed", "'undecided'")
    assert graph.get_state(CONFIG).tasks[0].error == "KeyError('undecided')"
