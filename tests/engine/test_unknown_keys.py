"""Unknown keys returned by a node: logged or rejected."""

from __future__ import annotations

import asyncio
import logging
from collections import UserDict
from typing import Any

import pytest
from typing_extensions import TypedDict

from hitl_django import Command, StateGraph
from hitl_django.engine.errors import InvalidUpdateError

from .graphs import line, says

UNKNOWN = {
    "dict": {"x": 2, "y": 3},
    "command": Command(update={"x": 2, "y": 3}),
    "pairs": [("x", 2), ("y", 3)],
    "mapping": UserDict({"x": 2, "y": 3}),
}


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("kind", UNKNOWN)
def test_unknown_key_in_node_update_is_dropped_and_logged_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    graph = line(a=lambda state: UNKNOWN[kind]).compile()
    with caplog.at_level(logging.WARNING, "hitl_django"):
        assert graph.invoke({"x": 1})["x"] == 2
        assert asyncio.run(graph.ainvoke({"x": 1}))["x"] == 2
    assert logged(caplog) == ["Node 'a' contains the unknown key 'y'; it is dropped. Keys: log, x."]


def invoke(graph: Any, *args: Any) -> Any:
    return graph.invoke(*args)


def ainvoke(graph: Any, *args: Any) -> Any:
    return asyncio.run(graph.ainvoke(*args))


@pytest.mark.parametrize("call", [invoke, ainvoke])
@pytest.mark.parametrize("kind", UNKNOWN)
def test_unknown_key_in_node_update_fails_the_node_if_on_unknown_key_is_error(
    kind: str, call: Any
) -> None:
    graph = line(a=lambda state: UNKNOWN[kind]).compile()
    config: Any = {"configurable": {"on_unknown_key": "error"}}
    with pytest.raises(
        InvalidUpdateError, match=r"Node 'a' contains the unknown key 'y'.* Keys: log, x"
    ):
        call(graph, {"x": 1}, config)


def test_unknown_key_in_graph_input_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert line(a=says("a")).compile().invoke({"x": 1, "z": 2}) == {"x": 1, "log": ["a"]}
    assert logged(caplog) == [
        "The input contains the unknown key 'z'; it is dropped. Keys: log, x."
    ]


class Child(TypedDict, total=False):
    x: int
    own: int


@pytest.mark.parametrize("branches", [False, True])
def test_subgraph_sharing_only_some_state_keys_logs_no_unknown_key_warning(
    branches: bool, caplog: pytest.LogCaptureFixture
) -> None:
    child = StateGraph(Child).add_node("c", lambda state: {"x": state["x"] + 1, "own": 1})
    if branches:
        child.add_conditional_edges("__start__", lambda state: "c", ["c"])
    else:
        child.add_edge("__start__", "c")
    graph = line(sub=child.compile(), b=says("b")).compile()
    config: Any = {"configurable": {"on_unknown_key": "error"}}
    assert graph.invoke({"x": 1}, config) == {"x": 2, "log": ["b"]}
    assert logged(caplog) == []
