"""Graphs built from channels and nodes, in both engines."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from .driving import Case, attempted, cases_of, start, transcript
from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

CASES: list[Case] = []
case = cases_of(CASES)


def made(e: Engine, nodes: dict[str, Any], given: Any, result: Any, **channels: Any) -> Any:
    """Return the Pregel that a case compiles from these nodes and channels."""

    def compiled(checkpointer: Any, **options: Any) -> Any:
        return e.Pregel(
            nodes=nodes, channels=channels, input_channels=given, output_channels=result,
            checkpointer=checkpointer, **options,
        )  # fmt: skip

    return SimpleNamespace(compile=compiled)


@case(start("x"), start("y"))
def one_value_from_node_to_node(e: Engine) -> Any:
    last = e.channels.LastValue
    double = e.NodeBuilder().subscribe_only("a").do(lambda value: value * 2).write_to("b")
    mark = e.NodeBuilder().subscribe_only("b").do(lambda value: f"<{value}>").write_to("c")
    return made(
        e, {"double": double, "mark": mark},
        "a", "c", a=last(str), b=last(str), c=last(str),
    )  # fmt: skip


@case(start({"a": "x", "c": "1"}), start({"c": "2"}))
def some_that_are_listened_to_and_some_that_are_only_read(e: Engine) -> Any:
    last = e.channels.LastValue
    join = (
        e.NodeBuilder()
        .subscribe_to("a", "b")
        .read_from("c")
        .do(lambda read: sorted(read.items()))
        .write_to("d")
    )
    silent = e.NodeBuilder().subscribe_to("c", read=False).read_from("a")
    silent = silent.do(lambda read: {**read, "said": "yes"}).write_to("f")
    return made(
        e, {"join": join, "silent": silent}, ["a", "b", "c"], ["d", "f"],
        a=e.channels.EphemeralValue(str), b=last(str), c=last(str), d=last(list), f=last(dict),
    )  # fmt: skip


@case(start(2))
def fixed_values_functions_of_the_result_and_what_was_written_in_one_step(e: Engine) -> Any:
    several = (
        e.NodeBuilder()
        .subscribe_only("a")
        .do(lambda value: value + 1)
        .do(lambda value: value * 10)
        .write_to("b", c="fixed", log=lambda value: [value, value])
    )
    other = e.NodeBuilder().subscribe_only("a").do(lambda value: [value]).write_to("log")
    last = e.channels.LastValue
    return made(
        e, {"several": several, "other": other}, "a", ["b", "c", "log"],
        a=last(int), b=last(int), c=last(str),
        log=e.channels.BinaryOperatorAggregate(list, operator.add),
    )  # fmt: skip


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_graph_built_with_pregel_from_channels_and_nodes_matches_langgraph_transcript(
    case: Case, way: str
) -> None:
    assert transcript(OURS, case, way) == transcript(LANGGRAPH, case, way)


WRONG: dict[str, Callable[[Engine], Any]] = {
    "two ways to subscribe": lambda e: e.NodeBuilder().subscribe_only("a").subscribe_to("b"),
    "one channel after several": lambda e: e.NodeBuilder().subscribe_to("a").subscribe_only("b"),
    "more to read than one": lambda e: e.NodeBuilder().subscribe_only("a").read_from("b"),
    "unknown input": lambda e: built(e, given="z"),
    "unknown output": lambda e: built(e, result="z"),
    "unknown channel to listen to": lambda e: built(e, listens="z"),
    "reserved channel": lambda e: built(e, also="__input__"),
}


def built(
    e: Engine, given: str = "a", result: str = "b", listens: str = "a", also: str = "c"
) -> Any:
    last = e.channels.LastValue
    node = e.NodeBuilder().subscribe_only(listens).write_to("b")
    channels = {"a": last(str), "b": last(str), also: last(str)}
    return made(e, {"one": node}, given, result, **channels).compile(None)


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_graph_built_with_pregel_raises_error_with_message_of_langgraph(
    wrong: str,
) -> None:
    _, error, message = attempted(lambda: WRONG[wrong](OURS))
    # Theirs is an AssertionError here and there, which python -O doesn't raise.
    assert error == "ValueError"
    assert message == attempted(lambda: WRONG[wrong](LANGGRAPH))[2]
