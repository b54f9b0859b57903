"""Codes of errors with several causes."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django import Command, interrupt
from hitl_django.engine.channels import EphemeralValue
from hitl_django.engine.errors import (
    GraphRecursionError,
    InvalidAnswerError,
    InvalidUpdateError,
    is_invalid_resume,
)
from hitl_django.engine.types import ErrorCode

from .graphs import CONFIG, line, paused, side_by_side


def test_error_of_two_writes_to_one_key_has_code_invalid_concurrent_graph_update() -> None:
    graph = side_by_side(a=lambda state: {"x": 1}, b=lambda state: {"x": 2}).compile()
    with pytest.raises(InvalidUpdateError, match="At key 'x'") as raised:
        graph.invoke({"x": 0})
    assert raised.value.code is ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE
    with pytest.raises(InvalidUpdateError, match="At key 'e'") as raised:
        EphemeralValue(int, key="e").fold(1, [1, 2])
    assert raised.value.code is ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE


def test_error_of_node_returning_number_has_code_invalid_graph_node_return_value() -> None:
    with pytest.raises(InvalidUpdateError, match="Expected dict") as raised:
        line(a=lambda state: 5).compile().invoke({"x": 1})
    assert raised.value.code is ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE


def test_recursion_limit_error_has_code_graph_recursion_limit() -> None:
    graph = line(a=lambda state: {"x": 1}).add_edge("a", "a").compile()
    with pytest.raises(GraphRecursionError) as raised:
        graph.invoke({"x": 1}, {"recursion_limit": 3})
    assert raised.value.code is ErrorCode.GRAPH_RECURSION_LIMIT


def test_is_invalid_resume_returns_true_only_for_error_of_response_failing_its_schema() -> None:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [interrupt("q", response_schema=int)]}

    graph = paused(line(a=node))
    with pytest.raises(InvalidAnswerError) as raised:
        graph.invoke(Command(resume="many"), CONFIG)
    assert is_invalid_resume(raised.value)
    assert not is_invalid_resume(ValueError())
