"""StateGraph: definitions that can't be built, and their error messages."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from typing_extensions import TypedDict

from hitl_django import END, START, Command, StateGraph
from hitl_django.engine.channels import BinaryOperatorAggregate, LastValue, Topic
from hitl_django.engine.errors import GraphDefinitionError
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.state.schema import IsLastStep

from .graphs import State, line, says


class Other(TypedDict, total=False):
    x: Annotated[int, operator.add]


class Another(TypedDict, total=False):
    x: Annotated[int, max]


class Timed(TypedDict, total=False):
    last: IsLastStep


def bad_reducer(one: Any) -> Any:
    """Reducer with too few arguments."""


class Broken(TypedDict, total=False):
    x: Annotated[int, bad_reducer]


def one_node() -> StateGraph:
    return line(a=says("a"))


def branch(state: Any) -> str:
    return END


FAULTS: list[tuple[str, Callable[[], Any]]] = [
    ("Node `a` already present.", lambda: one_node().add_node("a", says("a"))),
    ("Node `__start__` is reserved.", lambda: one_node().add_node(START, says("a"))),
    ("Node `__end__` is reserved.", lambda: one_node().add_node(END, says("a"))),
    (
        "'|' is a reserved character and is not allowed in the node names.",
        lambda: one_node().add_node("b|c", says("a")),
    ),
    (
        "':' is a reserved character and is not allowed in the node names.",
        lambda: one_node().add_node("b:c", says("a")),
    ),
    ("END cannot be a start node", lambda: one_node().add_edge(END, "a")),
    ("START cannot be an end node", lambda: one_node().add_edge("a", START)),
    ("Need to add_node `b` first", lambda: one_node().add_edge(["a", "b"], END)),
    ("Need to add_node `c` first", lambda: one_node().add_edge(["a"], "c")),
    ("END cannot be a start node", lambda: one_node().add_edge(["a", END], "a")),
    (
        "Branch with name `branch` already exists for node `a`",
        lambda: one_node().add_conditional_edges("a", branch).add_conditional_edges("a", branch),
    ),
    ("Sequence requires at least one node.", lambda: one_node().add_sequence([])),
    (
        "Node names must be unique: node with the name 'a' already exists.",
        lambda: one_node().add_sequence([("a", says("a"))]),
    ),
    ("Found edge starting at unknown node 'b'", lambda: one_node().add_edge("b", "a").compile()),
    ("Found edge ending at unknown node `b`", lambda: one_node().add_edge("a", "b").compile()),
    (
        "Graph must have an entrypoint: add at least one edge from START to another node",
        lambda: StateGraph(State).add_node("a", says("a")).compile(),
    ),
    (
        "At 'a' node, 'branch' branch found unknown target 'c'",
        lambda: one_node().add_conditional_edges("a", branch, ["c"]).compile(),
    ),
    ("Interrupt node `b` not found", lambda: one_node().compile(interrupt_before=["b"])),
    ("Interrupt node `b` not found", lambda: one_node().compile(interrupt_after=["b"])),
    (
        "Channel 'x' already exists with a different type",
        lambda: StateGraph(Other, input_schema=Another),
    ),
    (
        "Timed: last. Managed channels are not permitted in Input/Output schema.",
        lambda: StateGraph(State, input_schema=Timed),
    ),
    (
        "Invalid reducer signature. Expected (a, b) -> c. Got (one: 'Any') -> 'Any'",
        lambda: StateGraph(Broken),
    ),
]


@pytest.mark.parametrize(("message", "build"), FAULTS, ids=lambda v: v if type(v) is str else "")
def test_compile_of_invalid_graph_definition_raises_value_error_with_reason(
    message: str, build: Callable[[], Any]
) -> None:
    with pytest.raises(ValueError) as raised:
        build()
    assert message in str(raised.value)


def test_compile_reports_all_definition_errors_in_one_exception() -> None:
    graph = StateGraph(State).add_node("a", says("a"))
    graph.add_edge("nowhere", "a").add_edge("a", "elsewhere")
    with pytest.raises(GraphDefinitionError) as raised:
        graph.compile(interrupt_before=["gone"])
    assert str(raised.value).splitlines() == [
        "Found edge starting at unknown node 'nowhere'",
        "Graph must have an entrypoint: add at least one edge from START to another node",
        "Found edge ending at unknown node `elsewhere`",
        "Interrupt node `gone` not found",
    ]


def test_node_added_without_name_is_named_after_its_function_or_class() -> None:
    class Caller:
        def __call__(self, state: Any) -> None:
            return None

    graph = StateGraph(State).add_node(branch).add_node("called", Caller())
    assert set(graph.nodes) == {"branch", "called"}


def test_edge_added_twice_runs_its_target_node_once() -> None:
    graph = one_node().add_node("b", says("b")).add_edge("a", "b").add_edge("a", "b")
    assert graph.compile().invoke({"x": 1})["log"] == ["a", "b"]


def test_compile_fails_if_command_annotation_names_unknown_node() -> None:
    def jump(state: Any) -> Command[Literal["nowhere"]]:
        return Command(goto="nowhere")

    with pytest.raises(GraphDefinitionError, match="unknown target 'nowhere'"):
        StateGraph(State).add_node("a", jump).add_edge(START, "a").compile()


def test_node_added_after_compile_logs_warning_and_is_not_in_compiled_graph(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = one_node()
    compiled = graph.compile()
    with caplog.at_level(logging.WARNING, "hitl_django"):
        graph.add_node("late", says("late"))
    assert "after compiling" in caplog.text
    assert "late" not in compiled.nodes


def test_state_key_with_reducer_in_only_one_schema_uses_the_reducer() -> None:
    class Plain(TypedDict):
        x: int

    for one, other in ((Other, Plain), (Plain, Other)):
        graph = StateGraph(one, input_schema=other)
        assert isinstance(graph.channels["x"], BinaryOperatorAggregate)


def test_equal_reducers_of_one_key_in_two_schemas_compile_to_one_channel() -> None:
    class Same(TypedDict):
        x: Annotated[int, operator.add]

    assert isinstance(StateGraph(Other, input_schema=Same).channels["x"], BinaryOperatorAggregate)


def test_last_channel_annotation_of_state_field_selects_its_channel_type() -> None:
    class Fields(TypedDict, total=False):
        plain: int
        noted: Annotated[int, "a note"]
        folded: Annotated[list, "a note", operator.add]
        topic: Annotated[list, Topic(int)]
        kind: Annotated[list, Topic]
        last: IsLastStep

    channels = StateGraph(Fields, input_schema=State, output_schema=State).channels
    kinds = {name: type(channel) for name, channel in channels.items() if name not in ("x", "log")}
    assert kinds == {
        "plain": LastValue,
        "noted": LastValue,
        "folded": BinaryOperatorAggregate,
        "topic": Topic,
        "kind": Topic,
    }


def test_builtin_without_signature_is_accepted_as_reducer() -> None:
    class Folded(TypedDict):
        best: Annotated[int, max]

    graph = StateGraph(Folded).add_node("a", lambda state: {"best": 3}).add_edge(START, "a")
    assert graph.compile().invoke({"best": 7}) == {"best": 7}


def test_compile_with_invalid_checkpointer_raises_type_or_runtime_error() -> None:
    with pytest.raises(TypeError, match="checkpointer must be"):
        one_node().compile(checkpointer="sqlite")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="checkpointer=True cannot be used for root graphs"):
        one_node().compile(checkpointer=True).invoke({"x": 1}, {"configurable": {"thread_id": "t"}})


def test_invoke_with_checkpointer_without_thread_id_raises_value_error() -> None:
    with pytest.raises(ValueError, match="thread_id"):
        one_node().compile(InMemorySaver()).invoke({"x": 1})


def test_invoke_with_recursion_limit_below_one_raises_value_error() -> None:
    with pytest.raises(ValueError, match="recursion_limit must be at least 1"):
        one_node().compile().invoke({"x": 1}, {"recursion_limit": 0})


@dataclass
class Data:
    x: int = 0


def test_graph_state_schema_accepts_dataclass_and_builtin_type() -> None:
    graph = StateGraph(Data).add_node("a", lambda state: {"x": state.x + 1}).add_edge(START, "a")
    assert graph.compile().invoke({"x": 1}) == {"x": 2}
    number = StateGraph(int).add_node("a", lambda n: n + 1).add_edge(START, "a")
    assert number.compile().invoke(1) == 2


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda graph: graph.compile(interrupt_before="work"), "interrupt_before must be a list"),
        (lambda graph: graph.add_edge(print, END), "start_key must be a list of names"),
        (lambda graph: graph.add_edge("work", None), "end_key must be the name of a node"),
        (lambda graph: graph.add_conditional_edges(print, print), "source must be the name"),
        (lambda graph: graph.add_conditional_edges("work", str, "work"), "path_map must be a list"),
        (lambda graph: graph.add_node("next", str, destinations="work"), "destinations must be"),
    ],
)
def test_graph_definition_with_value_in_place_of_names_raises_type_error(
    build: Callable[[StateGraph], object], said: str
) -> None:
    graph = StateGraph(dict).add_node("work", print)
    with pytest.raises(TypeError, match=said):
        build(graph)
