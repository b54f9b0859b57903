"""Nodes: their arguments, and the effects of their return values."""

from __future__ import annotations

import asyncio
import operator
import re
from dataclasses import dataclass, field
from typing import Annotated, Any

import pydantic
import pytest
from typing_extensions import TypedDict

from hitl_django import END, START, Command, StateGraph
from hitl_django.engine.drivers import task_steps
from hitl_django.engine.errors import EmptyInputError, InvalidUpdateError, ParentCommand
from hitl_django.engine.task.node_api import get_config, get_runtime, get_stream_writer
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.types import RetryPolicy, Send
from tests.clock import module_time

from .graphs import CONFIG, State, asks, line, saved, says, side_by_side


def ran(node: Any, **options: Any) -> Any:
    return line(a=node).compile().invoke({"x": 1}, **options)


# Arguments of a node.


def test_node_with_config_parameter_receives_the_run_config() -> None:
    def node(state: State, config: Any) -> dict[str, Any]:
        told = config["metadata"]
        return {"log": [told["langgraph_node"], told["langgraph_step"], config["tags"]]}

    assert ran(node, config={"tags": ["t"]})["log"] == ["a", 1, ["t"]]


def test_node_with_runtime_writer_and_store_parameters_receives_objects_of_its_run() -> None:
    heard = []

    def node(state: State, runtime: Runtime[Any], writer: Any, store: Any) -> dict[str, Any]:
        writer({"told": runtime.context})
        return {"log": [store]}

    graph = line(a=node).compile(store="the store")
    heard = list(graph.stream({"x": 1}, context="c", stream_mode=["custom", "updates"]))
    assert heard == [("custom", {"told": "c"}), ("updates", {"a": {"log": ["the store"]}})]


def test_get_config_get_runtime_and_get_stream_writer_return_objects_of_running_node() -> None:
    def node(state: State) -> dict[str, Any]:
        get_stream_writer()("told")
        return {"log": [get_config()["metadata"]["langgraph_node"], get_runtime().context]}

    graph = line(a=node).compile()
    heard = list(graph.stream({"x": 1}, context="c", stream_mode=["custom", "values"]))
    assert ("custom", "told") in heard
    assert heard[-1][1]["log"] == ["a", "c"]


def test_get_config_and_related_functions_outside_a_graph_raise_runtime_error() -> None:
    for find in (get_config, get_runtime, get_stream_writer):
        with pytest.raises(RuntimeError, match="outside of a runnable context"):
            find()


def test_execution_info_in_node_has_task_id_namespace_thread_id_and_attempt() -> None:
    seen = []

    def node(state: State, runtime: Runtime[Any]) -> None:
        seen.append(runtime.execution_info)

    graph = saved(line(a=node))
    graph.invoke({"x": 1}, CONFIG)
    [info] = seen
    [task] = list(graph.get_state_history(CONFIG))[1].tasks
    assert (info.task_id, info.checkpoint_ns) == (task.id, f"a:{task.id}")
    assert (info.thread_id, info.node_attempt) == ("thread", 1)


@dataclass
class Context:
    user: str
    limit: int = 3


def test_context_given_as_dict_reaches_node_as_context_schema_instance() -> None:
    seen = []

    def node(state: State, runtime: Runtime[Context]) -> None:
        seen.append(runtime.context)

    graph = StateGraph(State, context_schema=Context).add_node("a", node).add_edge(START, "a")
    graph.compile().invoke({"x": 1}, context={"user": "u"})
    assert seen == [Context("u", 3)]


def test_node_with_input_schema_receives_only_keys_of_that_schema() -> None:
    class Narrow(TypedDict):
        x: int

    def node(state: Any) -> dict[str, Any]:
        return {"log": [sorted(state)]}

    graph = StateGraph(State).add_node("a", node, input_schema=Narrow).add_edge(START, "a")
    assert graph.compile().invoke({"x": 1, "log": []})["log"] == [["x"]]


def test_node_input_omits_state_keys_without_value() -> None:
    assert ran(lambda state: {"log": [sorted(state)]})["log"] == [["log", "x"]]
    graph = line(a=lambda state: {"log": [sorted(state)]}).compile()
    assert graph.invoke({})["log"] == [["log"]]


def test_mutating_node_input_does_not_change_graph_state() -> None:
    def node(state: State) -> dict[str, Any]:
        state["x"] = 99
        return {"log": ["a"]}

    assert ran(node) == {"x": 1, "log": ["a"]}


class Model(pydantic.BaseModel):
    x: int = 0
    log: Annotated[list, operator.add] = []
    currency: str = "EUR"


@dataclass
class Data:
    x: int = 0
    log: Annotated[list, operator.add] = field(default_factory=list)


@pytest.mark.parametrize("schema", [Model, Data])
def test_node_of_graph_with_class_schema_receives_instance_of_that_class(schema: Any) -> None:
    graph = StateGraph(schema).add_edge(START, "a")
    graph.add_node("a", lambda state: {"log": [type(state).__name__, state.x]})
    assert graph.compile().invoke({"x": 1})["log"] == [schema.__name__, 1]


def test_invalid_pydantic_state_raises_validation_error_naming_the_node() -> None:
    graph = StateGraph(Model).add_edge(START, "a").add_node("a", lambda state: {})
    with pytest.raises(pydantic.ValidationError) as raised:
        graph.compile().invoke({"x": "no number"})
    assert any("task with name 'a'" in note for note in raised.value.__notes__)


# Results of a node.


@pytest.mark.parametrize("returned", [None, {}, Command(), [], {"unknown": 1}])
def test_node_returning_empty_update_leaves_state_unchanged(returned: Any) -> None:
    assert ran(lambda state: returned) == {"x": 1, "log": []}


@pytest.mark.parametrize("returned", [5, "text", ["text"], object])
def test_node_returning_value_other_than_dict_raises_invalid_update_error(returned: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
        ran(lambda state: returned)


def test_node_returning_pydantic_model_updates_only_explicitly_set_fields() -> None:
    graph = StateGraph(Model).add_edge(START, "a").add_node("a", lambda state: Model(x=2))
    assert graph.compile().invoke({"x": 1, "log": ["kept"]})["log"] == ["kept"]
    assert graph.compile().invoke({"x": 1})["x"] == 2


def test_command_with_update_and_goto_changes_state_and_runs_target_node() -> None:
    graph = line(a=lambda state: Command(update={"x": 5}, goto="c"), b=says("b"))
    graph.add_node("c", says("c"))
    assert graph.compile().invoke({"x": 1}) == {"x": 5, "log": ["b", "c"]}


def test_command_with_goto_end_updates_state_and_finishes_run() -> None:
    assert ran(lambda state: Command(update={"x": 5}, goto=END)) == {"x": 5, "log": []}


def test_node_returning_list_of_command_and_dict_applies_both_in_order() -> None:
    graph = line(a=lambda state: [Command(update={"log": ["1"]}, goto="b"), {"log": ["2"]}])
    graph.add_node("b", says("b"))
    assert graph.compile().invoke({"x": 1})["log"] == ["1", "2", "b"]


def test_send_passes_its_argument_unchanged_to_the_target_node() -> None:
    graph = line(a=lambda state: Command(goto=[Send("w", {"any": 1}), Send("w", [2])]))
    graph.add_node("w", lambda arg: {"log": [arg]})
    assert graph.compile().invoke({"x": 1})["log"] == [{"any": 1}, [2]]


@pytest.mark.parametrize("goto", ["nowhere", Send("nowhere", 1), ["b", "nowhere"]])
def test_command_with_goto_to_unknown_node_raises_value_error_listing_nodes(goto: Any) -> None:
    graph = line(a=lambda state: Command(goto=goto), b=says("b"))
    with pytest.raises(ValueError, match=r"Node 'a' goes to unknown node 'nowhere'\. Nodes: a, b"):
        graph.compile().invoke({"x": 1})


def test_command_with_send_to_end_raises_invalid_update_error() -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        ran(lambda state: Command(goto=Send(END, 1)))


@pytest.mark.parametrize("chosen", [None, START, [None]])
def test_conditional_branch_returning_no_destination_raises_value_error(chosen: Any) -> None:
    graph = line(a=says("a")).add_conditional_edges("a", lambda state: chosen)
    with pytest.raises(ValueError, match="Branch did not return a valid destination"):
        graph.compile().invoke({"x": 1})


def test_conditional_branch_receives_state_with_writes_of_its_node() -> None:
    seen = []

    def route(state: State) -> str:
        seen.append((state["x"], state["log"]))
        return END

    line(a=says("a", x=5)).add_conditional_edges("a", route).compile().invoke({"x": 1})
    assert seen == [(5, ["a"])]


def test_conditional_branch_does_not_receive_writes_of_parallel_sibling() -> None:
    seen = []

    def route(state: State) -> str:
        seen.append(state["log"])
        return END

    graph = side_by_side(a=says("a"), b=says("b")).add_conditional_edges("b", route)
    graph.compile().invoke({"x": 1})
    assert seen == [["b"]]


# Arguments of a call.


def test_invoke_of_new_run_without_input_raises_empty_input_error() -> None:
    with pytest.raises(EmptyInputError, match="Received no input"):
        line(a=says("a")).compile().invoke(None)


@pytest.mark.parametrize("wrong", [5, "text", [1]])
def test_invoke_with_input_of_wrong_type_raises_invalid_update_error(wrong: Any) -> None:
    graph = line(a=says("a")).compile()
    with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
        graph.invoke(wrong)


def test_invoke_drops_unknown_input_key_and_validate_input_raises_error_naming_the_key() -> None:
    graph = line(a=says("a")).compile()
    assert graph.invoke({"x": 1, "y": 2}) == {"x": 1, "log": ["a"]}
    with pytest.raises(ValueError, match=r"\$\.y: unknown field"):
        graph.validate_input({"x": 1, "y": 2})


def test_validate_input_reports_all_invalid_fields_in_one_error() -> None:
    graph = line(a=says("a")).compile()
    with pytest.raises(ValueError) as raised:
        graph.validate_input({"x": "no", "log": 5, "z": 1})
    paths = [path for path, _ in raised.value.faults]  # type: ignore[attr-defined]
    assert sorted(paths) == ["$.log", "$.x", "$.z"]
    graph.validate_input({"x": 1})
    graph.validate_input({})


# Retries.


def quick(**fields: Any) -> RetryPolicy:
    return RetryPolicy(**{"initial_interval": 0.0001, "jitter": False, **fields})


class Flaky:
    """Node that fails several times before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self, state: Any) -> dict[str, Any]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"log": [f"call {self.calls}"]}


def retried(node: Any, *policies: RetryPolicy) -> Any:
    graph = StateGraph(State).add_node("a", node, retry_policy=policies).add_edge(START, "a")
    return graph.compile().invoke({"x": 1})["log"]


def test_retry_policy_runs_failed_node_again_until_the_node_succeeds() -> None:
    assert retried(Flaky(ConnectionError(), ConnectionError()), quick()) == ["call 3"]


def test_node_failing_all_retry_attempts_raises_error_of_last_attempt() -> None:
    flaky = Flaky(*(ConnectionError(str(i)) for i in range(9)))
    with pytest.raises(ConnectionError, match=r"^2"):
        retried(flaky, quick(max_attempts=3))
    assert flaky.calls == 3


@pytest.mark.parametrize("error", [ValueError(), TypeError(), KeyError(), OSError(), NameError()])
def test_default_retry_policy_does_not_retry_programming_errors(error: Exception) -> None:
    flaky = Flaky(error)
    with pytest.raises(type(error)):
        retried(flaky, quick())
    assert flaky.calls == 1


@pytest.mark.parametrize(
    "retry_on", [KeyError, (ValueError, KeyError), lambda error: "k" in str(error)]
)
def test_retry_on_accepts_exception_class_tuple_and_predicate(retry_on: Any) -> None:
    assert retried(Flaky(KeyError("k")), quick(retry_on=retry_on)) == ["call 2"]


def test_node_failure_uses_first_retry_policy_that_matches_the_exception() -> None:
    flaky = Flaky(*(KeyError("k") for _ in range(9)))
    policies = [
        quick(retry_on=ValueError, max_attempts=9),
        quick(retry_on=KeyError, max_attempts=2),
        quick(retry_on=Exception, max_attempts=9),
    ]
    with pytest.raises(KeyError):
        retried(flaky, *policies)
    assert flaky.calls == 2


def test_delay_between_retries_doubles_up_to_max_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(task_steps, "time", module_time(sleep=waits.append))
    flaky = Flaky(*(ConnectionError() for _ in range(5)))
    retried(flaky, RetryPolicy(1.0, 2.0, 5.0, max_attempts=6, jitter=False))
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_writes_of_failed_node_attempt_are_not_applied() -> None:
    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.execution_info is not None
        if runtime.execution_info.node_attempt == 1:
            raise ConnectionError
        return {"log": [runtime.execution_info.node_attempt]}

    assert retried(node, quick()) == [2]


def test_node_exception_has_note_with_its_task_name_and_id() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        ran(lambda state: 1 / 0)
    [note] = raised.value.__notes__
    assert note.startswith("During task with name 'a' and id '")


def test_default_retry_policy_of_graph_applies_only_to_nodes_without_a_retry_policy() -> None:
    default, own = Flaky(KeyError("k")), Flaky(KeyError("k"), KeyError("k"))
    graph = StateGraph(State).add_node("default", default)
    graph.add_node("own", own, retry_policy=quick(retry_on=KeyError, max_attempts=1))
    graph.set_node_defaults(retry_policy=quick(retry_on=KeyError))
    graph.add_edge(START, "default").add_edge("default", "own")
    with pytest.raises(KeyError):
        graph.compile().invoke({"x": 1})
    assert (default.calls, own.calls) == (2, 1)


# Single calls of a node use separate code.


def _asks_for_a_parent(state: State) -> Any:
    return Command(graph=Command.PARENT, update={"x": 2})


def _fails(state: State) -> Any:
    raise LookupError("no such thing")


def _cancels(state: State) -> Any:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "node",
    [
        says("a", x=2),
        asks("What?"),
        _fails,
        _cancels,
        _asks_for_a_parent,
        lambda state: 3,
        lambda state: Command(goto="nowhere"),
        line(inner=asks("Below?")).compile(),
        line(inner=_asks_for_a_parent).compile(),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_node_result_and_stored_writes_are_equal_with_and_without_retry_policy(
    node: Any, is_async: bool
) -> None:
    async def awaited(state: State) -> Any:
        return node(state) if callable(node) else await node.ainvoke(state)

    outcomes = []
    for policy in (None, RetryPolicy(retry_on=ArithmeticError)):
        called = node if callable(node) else lambda state: node.invoke(state)
        start = StateGraph(State).add_edge(START, "a")
        start.add_node("a", awaited if is_async else called, retry_policy=policy)
        graph = saved(start)
        assert (graph.nodes["a"].only is not None) is (policy is None)
        try:
            result = (
                asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
                if is_async
                else graph.invoke({"x": 1}, CONFIG)
            )
        except (Exception, ParentCommand) as error:
            result = error, getattr(error, "__notes__", ())
        came_to = result, [write[1:] for write in graph.saver.get_tuple(CONFIG).pending_writes]
        outcomes.append(re.sub("[0-9a-f-]{32,36}", "an id", repr(came_to)))
    assert outcomes[0] == outcomes[1]
