"""What was refused says which thread, question, node or limit it was about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import (
    Command,
    GraphChangedError,
    GraphRecursionError,
    InvalidUpdateError,
    NothingPendingError,
    OpenQuestionsError,
    ThreadNotFound,
)

from .graphs import CONFIG, asks, line, open_questions, paused, saved, says, side_by_side

ELSEWHERE = {"configurable": {"thread_id": "elsewhere"}}
LOST = "1f000000-0000-6000-8000-000000000000"


def refused(kind: type[Exception], call: Callable[[], Any]) -> dict[str, Any]:
    """Returns the attributes of the error that a call raises."""
    with pytest.raises(kind) as raised:
        call()
    return {key: value for key, value in vars(raised.value).items() if key != "__notes__"}


def test_a_refused_call_names_its_thread() -> None:
    graph = paused(line(a=asks("q")))
    open_ids = tuple(open_questions(graph).values())
    for call in (
        lambda: graph.invoke({"x": 2}, CONFIG),
        lambda: graph.update_state(CONFIG, {"x": 2}),
    ):
        told = refused(OpenQuestionsError, call)
        assert told == {"pending_ids": open_ids, "thread_id": "thread"}
    changed = saved(line(b=says("b")), graph.checkpointer)
    told = refused(GraphChangedError, lambda: changed.invoke(None, CONFIG))
    assert told == {"changes": ("node 'a' is gone",), "thread_id": "thread"}
    graph.invoke(Command(resume="yes"), CONFIG)
    told = refused(NothingPendingError, lambda: graph.invoke(Command(resume="yes"), CONFIG))
    assert told == {"thread_id": "thread"}


def test_a_thread_or_a_checkpoint_that_is_not_there_is_named() -> None:
    graph = paused(line(a=asks("q")))
    there = {"configurable": {**CONFIG["configurable"], "checkpoint_id": LOST}}
    for call in (
        lambda: graph.invoke(Command(resume="yes"), ELSEWHERE),
        lambda: graph.advance(ELSEWHERE),
    ):
        told = refused(ThreadNotFound, call)
        assert told == {"thread_id": "elsewhere", "checkpoint_id": None}
    told = refused(ThreadNotFound, lambda: graph.invoke(None, there))
    assert told == {"thread_id": "thread", "checkpoint_id": LOST}


def test_a_step_limit_names_itself_and_who_would_have_run() -> None:
    graph = saved(line(a=says("a")).add_edge("a", "a"))
    told = refused(GraphRecursionError, lambda: graph.invoke({}, {**CONFIG, "recursion_limit": 2}))
    assert told == {"limit": 2, "next": ("a",)}


def test_a_step_that_cannot_be_taken_names_who_wrote() -> None:
    graph = saved(side_by_side(a=says("a", x=1), b=says("b", x=2)))
    with pytest.raises(InvalidUpdateError, match="At key 'x'") as raised:
        graph.invoke({"x": 0}, CONFIG)
    assert raised.value.__notes__ == ["While applying what 'a', 'b' wrote in step 1"]
