"""Error messages: the thread, interrupt, node or limit that they name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from hitl_django import START, Command, StateGraph, entrypoint, task
from hitl_django.engine.errors import (
    GraphChangedError,
    GraphRecursionError,
    InvalidUpdateError,
    NothingPendingError,
    PendingInterruptsError,
    ThreadNotFound,
)
from hitl_django.engine.loop.node_cache import InMemoryCache
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.types import CachePolicy

from .graphs import CONFIG, State, asks, line, open_interrupts, paused, saved, says, side_by_side

ELSEWHERE = {"configurable": {"thread_id": "elsewhere"}}
LOST = "1f000000-0000-6000-8000-000000000000"


def refused(kind: type[Exception], call: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(kind) as raised:
        call()
    return {key: value for key, value in vars(raised.value).items() if key != "__notes__"}


def test_error_of_rejected_graph_call_has_attributes_thread_id_and_interrupt_ids() -> None:
    graph = paused(line(a=asks("q")))
    open_ids = tuple(open_interrupts(graph).values())
    for call in (
        lambda: graph.invoke({"x": 2}, CONFIG),
        lambda: graph.update_state(CONFIG, {"x": 2}),
    ):
        told = refused(PendingInterruptsError, call)
        assert told == {"pending_ids": open_ids, "thread_id": "thread"}
    changed = saved(line(b=says("b")), graph.checkpointer)
    told = refused(GraphChangedError, lambda: changed.invoke(None, CONFIG))
    assert told == {"changes": ("node 'a' was removed",), "thread_id": "thread"}
    graph.invoke(Command(resume="yes"), CONFIG)
    told = refused(NothingPendingError, lambda: graph.invoke(Command(resume="yes"), CONFIG))
    assert told == {"thread_id": "thread"}


def test_thread_not_found_error_has_attributes_thread_id_and_checkpoint_id() -> None:
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


def test_recursion_limit_error_has_attributes_limit_and_next_nodes() -> None:
    graph = saved(line(a=says("a")).add_edge("a", "a"))
    told = refused(GraphRecursionError, lambda: graph.invoke({}, {**CONFIG, "recursion_limit": 2}))
    assert told == {"limit": 2, "next": ("a",)}


def test_error_of_conflicting_parallel_writes_has_note_naming_the_writing_nodes() -> None:
    graph = saved(side_by_side(a=says("a", x=1), b=says("b", x=2)))
    with pytest.raises(InvalidUpdateError, match="At key 'x'") as raised:
        graph.invoke({"x": 0}, CONFIG)
    assert raised.value.__notes__ == ["While applying the writes of 'a', 'b' in step 1"]


class Terse(Exception):
    """Takes no notes."""

    def add_note(self, note: str) -> None:
        raise TypeError("no notes")


def refuse(held: Any, given: Any) -> Any:
    raise Terse("not that")


class Refusing(TypedDict):
    x: Annotated[Any, refuse]


def test_reducer_exception_that_rejects_notes_is_raised_unchanged() -> None:
    graph = StateGraph(Refusing).add_node("a", lambda state: {"x": 1}).add_edge(START, "a")
    with pytest.raises(Terse, match="not that"):
        saved(graph).invoke({"x": 0}, CONFIG)


@dataclass
class Picky:
    """A state that one of its nodes can't take."""

    x: int = 0

    def __post_init__(self) -> None:
        if self.x:
            raise Terse("not that")


@task(cache_policy=CachePolicy(key_func=lambda *given: refuse(None, given)))
def kept(x: int) -> int:
    return x


@entrypoint(checkpointer=InMemorySaver(), cache=InMemoryCache())
def calling(x: int) -> int:
    return kept(x).result()


def test_input_or_cache_key_exception_that_rejects_notes_fails_its_task_unchanged() -> None:
    def picky(state: Picky) -> dict[str, Any]:
        return {"x": state.x}

    graph = StateGraph(State).add_node("a", says("a", x=1)).add_edge(START, "a")
    typed = saved(graph.add_node("b", picky, input_schema=Picky).add_edge("a", "b"))
    key = CachePolicy(key_func=lambda state: refuse(None, state))
    keyed = StateGraph(State).add_node("b", says("b"), cache_policy=key).add_edge(START, "b")
    for failing in (typed, saved(keyed, cache=InMemoryCache())):
        with pytest.raises(Terse, match="not that"):
            failing.invoke({"x": 0}, CONFIG)
        assert failing.get_state(CONFIG).next == ("b",)
    with pytest.raises(Terse, match="not that"):
        calling.invoke(1, CONFIG)
