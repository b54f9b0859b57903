"""The position of a thread in its graph, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import END, START, StateGraph, interrupt, services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.engine.types import Send
from hitl_django.graph_registry import registry
from hitl_django.models import ChannelBlob, Checkpoint, Interrupt, Run
from tests.services.conftest import asked

pytestmark = pytest.mark.django_db


class State(TypedDict, total=False):
    fails: bool
    size: str


@pytest.fixture
def trip() -> Iterator[None]:
    """Register a graph whose subgraph interrupts, and then fails if its state says so."""

    def ask(state: State) -> State:
        interrupt("Go on?")
        return {}

    def work(state: State) -> State:
        if state.get("fails"):
            raise ValueError("no")
        return {}

    inner = StateGraph(State).add_node("look", lambda state: {}).add_node("ask", ask)
    inner.add_edge(START, "look").add_edge("look", "ask")
    graph = StateGraph(State).add_node("pack", lambda state: {"size": "x" * 5000})
    graph.add_node("trip", inner.compile()).add_node("work", work).add_node("rest", work)
    graph.add_edge(START, "pack").add_edge("pack", "trip").add_edge("trip", "work")
    graph.add_conditional_edges("work", lambda state: "rest", {"rest": "rest", "stop": END})
    registry.register("trip")(lambda: graph)
    yield
    registry.unregister("trip")


def where_of(run_id: Any) -> services.ThreadPosition:
    return services.thread_position(Run.objects.get(pk=run_id).thread.thread_id)


def test_thread_position_of_interrupted_run_contains_paused_node_and_its_parents(
    trip: None, advance: Callable[[], int]
) -> None:
    pending = asked("trip", {}, advance)

    where = where_of(pending.run_id)

    assert where.graph == "trip"
    assert where.paused == {"trip", "trip:ask"}
    assert where.visited == {START, "pack", "trip", "trip:__start__", "trip:look"}
    assert where.next == {"trip:__end__"}
    assert where.failed == set()


def fail(state: State) -> State:
    raise ValueError("no")


@pytest.fixture
def calls() -> Iterator[Callable[..., None]]:
    """Yield a function that registers a graph in which Sends run two nodes, of which one fails."""

    def register(failing: str, **options: Any) -> None:
        graph = StateGraph(State).add_node("first", lambda state: {}).add_node("look", fail_never)
        graph.add_node(failing, fail).add_edge(START, "first")
        sends = [Send("look", {}), Send(failing, {}), Send("look", {})]
        graph.add_conditional_edges("first", lambda state: sends, ["look", failing])
        registry.register("calls", **options)(lambda: graph)

    def fail_never(state: State) -> State:
        return {}

    yield register
    registry.unregister("calls")


def test_thread_position_contains_the_failed_node_of_a_send(
    calls: Callable[..., None], advance: Callable[[], int]
) -> None:
    calls("call")
    run = services.start("calls", {})
    advance()

    where = where_of(run.id)

    assert (where.failed, where.next) == ({"call"}, set())
    registry.unregister("calls")
    calls("phone", renamed={"call": "phone"})
    assert where_of(run.id).failed == {"phone"}


def test_thread_position_contains_the_current_name_of_a_failed_node(
    advance: Callable[[], int],
) -> None:
    def register(name: str, **options: Any) -> None:
        graph = StateGraph(State).add_node(name, fail).add_edge(START, name)
        registry.register("renamed", **options)(lambda: graph)

    register("work")
    run = services.start("renamed", {})
    advance()
    registry.unregister("renamed")
    register("labour", renamed={"work": "labour"})

    try:
        assert where_of(run.id).failed == {"labour"}
    finally:
        registry.unregister("renamed")


def test_thread_position_of_failed_run_contains_the_failed_node(
    trip: None, advance: Callable[[], int]
) -> None:
    pending = asked("trip", {"fails": True}, advance)
    services.decide(pending.pk, "approve")
    advance()

    where = where_of(pending.run_id)

    assert where.failed == {"work"}
    assert where.next == set()
    assert {"pack", "trip", "trip:look", "trip:ask"} <= where.visited


def test_thread_position_of_queued_run_contains_its_next_nodes(
    trip: None, advance: Callable[[], int]
) -> None:
    new = services.start("trip", {})
    assert where_of(new.id).next == {"pack"}
    assert where_of(new.id).visited == {START}
    pending = asked("trip", {}, advance)
    services.decide(pending.pk, "approve")

    assert where_of(pending.run_id).next == {"trip"}
    assert where_of(pending.run_id).paused == set()


def test_thread_position_of_succeeded_run_contains_end_and_no_next_node(
    trip: None, advance: Callable[[], int]
) -> None:
    pending = asked("trip", {}, advance)
    services.decide(pending.pk, "approve")
    advance()

    where = where_of(pending.run_id)

    assert {END, "rest", "work", "trip:ask"} <= where.visited
    assert where.next == where.paused == where.failed == set()


def test_thread_position_ignores_nodes_of_branch_abandoned_by_a_fork(
    advance: Callable[[], int],
) -> None:
    info = services.start("steps", {"log": []})
    advance()
    at = Checkpoint.objects.get(step=2).checkpoint_id

    again = services.fork(info.thread_id, at)
    assert where_of(again.id).visited == {START, "a", "b"}
    assert where_of(again.id).next == {"c"}
    services.cancel(again.id)
    changed = services.fork(info.thread_id, at, values={"log": ["more of b"]})
    assert where_of(changed.id).visited == {START, "a", "b"}
    assert where_of(changed.id).next == {"c"}


@pytest.mark.parametrize("size", [1, 5000])
def test_thread_position_of_fork_from_input_contains_only_the_first_node_as_next(
    advance: Callable[[], int], size: int
) -> None:
    info = services.start("steps", {"log": ["x" * size]})
    advance()
    again = services.fork(info.thread_id, Checkpoint.objects.get(step=-1).checkpoint_id)

    assert where_of(again.id).visited == set()
    assert where_of(again.id).next == {"a"}


def test_thread_position_contains_each_node_with_pending_interrupt(
    advance: Callable[[], int],
) -> None:
    pending = asked("panel", {}, advance)
    assert where_of(pending.run_id).paused == {"left", "right"}

    services.decide(pending.pk, "respond", "x")
    advance()

    assert where_of(pending.run_id).paused == {"right"}


def test_thread_position_is_computed_from_the_given_thread_only(advance: Callable[[], int]) -> None:
    first, pending, last = (asked("panel", {}, advance) for _ in range(3))
    services.decide(pending.pk, "respond", "x")
    advance()
    services.cancel(last.run_id)

    assert where_of(first.run_id).paused == {"left", "right"}
    assert where_of(pending.run_id).paused == {"right"}
    assert where_of(last.run_id).paused == set()


def test_thread_position_ignores_pending_interrupts_of_earlier_runs(
    advance: Callable[[], int],
) -> None:
    pending = asked("panel", {}, advance)
    services.cancel(pending.run_id)
    again = services.start("panel", {}, thread_id=pending.thread.thread_id)
    advance()
    services.decide(Interrupt.objects.get(run=again.id, node="left").pk, "respond", "x")
    advance()
    # The run resumed before its interrupts were closed, so they stay pending until the next sweep.
    Interrupt.objects.filter(run=pending.run_id).update(status="pending")

    assert where_of(again.id).paused == {"right"}


def test_thread_picture_takes_at_most_nine_queries_and_reads_no_channel_values(
    trip: None, advance: Callable[[], int]
) -> None:
    pending = asked("trip", {}, advance)
    name = pending.thread.thread_id
    with CaptureQueriesContext(connection) as seen:
        services.thread_picture(name)
    assert len(seen) <= 9
    assert not any(ChannelBlob._meta.db_table in query["sql"] for query in seen)


def test_thread_position_of_state_with_hundred_keys_takes_at_most_nine_queries(
    advance: Callable[[], int],
) -> None:
    names = [f"key_{number}" for number in range(100)]
    state = TypedDict("state", dict.fromkeys(names, int), total=False)  # type: ignore[misc]
    graph = StateGraph(state)
    for position in range(3):
        graph.add_node(f"step_{position}", lambda state: dict.fromkeys(names, 1))
    graph.add_sequence([("ask", lambda state: interrupt("?"))])
    for one, other in (
        (START, "step_0"),
        ("step_0", "step_1"),
        ("step_1", "ask"),
        ("ask", "step_2"),
    ):
        graph.add_edge(one, other)
    registry.register("wide")(lambda: graph)
    try:
        pending = asked("wide", {"key_1": 1}, advance)
        with CaptureQueriesContext(connection) as seen:
            where = where_of(pending.run_id)
    finally:
        registry.unregister("wide")

    assert where.visited >= {"step_0", "step_1"}
    assert (where.paused, where.next) == ({"ask"}, {"step_2"})
    assert len(seen) <= 9


@pytest.mark.promise("P18")
def test_thread_position_without_view_permission_raises_thread_not_found(
    advance: Callable[[], int], user: Callable[..., User]
) -> None:
    name = asked("approval", {"text": "x"}, advance).thread.thread_id

    with pytest.raises(ThreadNotFound):
        services.thread_position(name, by=user("nobody"))
    with pytest.raises(ThreadNotFound):
        services.thread_position("absent")
    assert services.thread_position(name, by=user("vera", "view_thread")).paused == {"ask"}


def test_thread_picture_names_the_node_waiting_for_review(advance: Callable[[], int]) -> None:
    name = asked("approval", {"text": "x"}, advance).thread.thread_id

    image = services.thread_picture(name)

    assert ">Approval</title>" in image
    assert "Waiting for review at: ask." in image


def test_thread_picture_of_unregistered_graph_is_empty_string(
    trip: None, advance: Callable[[], int]
) -> None:
    name = asked("trip", {}, advance).thread.thread_id
    registry.unregister("trip")

    assert services.thread_picture(name) == ""
    assert services.thread_position(name) == services.ThreadPosition("trip")
