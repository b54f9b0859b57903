"""Deployments between an interrupt and its response: renames, state migrations and pinned
versions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Annotated, Any, TypedDict

import pytest

from hitl_django import END, START, ReviewPolicy, StateGraph, interrupt, services, testing
from hitl_django.engine.errors import GraphChangedError, GraphDefinitionError
from hitl_django.engine.types import Send
from hitl_django.errors import BrokenGraphError, UnknownVersionError
from hitl_django.graph_registry import compatibility, registry
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run
from hitl_django.worker import runner
from tests.reading import values_of

Advance = Callable[[], int]
Deploy = Callable[..., None]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Register a version of the graph "refund". ``beside`` keeps the other graphs registered."""
    compatibility.clear_structures()

    def put(build: Any, *, beside: bool = False, **terms: Any) -> None:
        if not beside:
            registry.unregister("refund")
        registry.register("refund", **terms)(lambda: build)

    yield put
    registry.unregister("refund")
    compatibility.clear_structures()


class Old(TypedDict, total=False):
    log: Annotated[list, operator.add]
    total: int


class New(TypedDict, total=False):
    notes: Annotated[list, operator.add]
    amount: int


def build_old() -> StateGraph:
    """Build the old graph: it plans, sends three tasks that interrupt or end, and pays."""

    def each(state: Any) -> Any:
        number = state["total"]
        return {"log": [interrupt(f"{number}?") if number else "none"]}

    graph = StateGraph(Old)
    graph.add_node("plan", lambda state: {"log": ["plan"], "total": 5}).add_edge(START, "plan")
    graph.add_node("review", each)
    sends = [Send("review", {"total": number}) for number in range(3)]
    graph.add_conditional_edges("plan", lambda state: sends, ["review"])
    graph.add_node("pay", lambda state: {"log": [f"paid {state['total']}"]})
    return graph.add_edge("review", "pay")


def build_new() -> StateGraph:
    def each(state: Any) -> Any:
        number = state["amount"]
        return {"notes": [interrupt(f"{number}?") if number else "none"]}

    graph = StateGraph(New)
    graph.add_node("draft", lambda state: {"notes": ["plan"], "amount": 5})
    graph.add_edge(START, "draft").add_node("ask", each)
    sends = [Send("ask", {"amount": number}) for number in range(3)]
    graph.add_conditional_edges("draft", lambda state: sends, ["ask"])
    graph.add_node("settle", lambda state: {"notes": [f"paid {state['amount']}"]})
    return graph.add_edge("ask", "settle")


RENAMED = {
    "plan": "draft", "review": "ask", "pay": "settle", "log": "notes", "total": "amount",
}  # fmt: skip


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("first", ["before", "after"])
@pytest.mark.parametrize("length", [0, 200])
def test_responses_given_before_and_after_node_rename_reach_their_interrupts(
    deploy: Deploy, advance: Advance, first: str, length: int, durability: Any
) -> None:
    deploy(build_old(), durability=durability)
    # A long list is stored as its additions.
    run = services.start("refund", {"log": ["x" * 50] * length})
    advance()
    asked = {one.title: one for one in Interrupt.objects.filter(status="pending")}
    assert len(asked) == 2
    one, two = asked["1?"], asked["2?"]
    if first == "before":
        services.decide(one.pk, "respond", "first")
        advance()
    deploy(build_new(), version="2", renamed=RENAMED, durability=durability)
    if first == "after":
        services.decide(one.pk, "respond", "first")
        advance()
    # The remaining interrupt has the same id and payload.
    left = Interrupt.objects.get(status="pending")
    assert (left.pk, left.interrupt_id) == (two.pk, two.interrupt_id)
    position = services.thread_position(run.thread_id)
    assert position.paused == {"ask"}
    assert "<svg" in services.thread_picture(run.thread_id)
    assert [task.name for task in services.thread_state(run.thread_id).tasks][-1] == "ask"
    services.decide(two.pk, "respond", "second")
    advance()
    assert Run.objects.get().error == ""
    state = values_of(two.thread)
    assert state == {
        "notes": [*["x" * 50] * length, "plan", "none", "first", "second", "paid 5"],
        "amount": 5,
    }
    assert Interrupt.objects.count() == 2
    assert services.run_result(run.id) == state


def test_breakpoint_of_run_on_former_node_name_stops_at_renamed_node(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(build_old())
    options = services.RunOptions(interrupt_before=["plan", "pay"])
    services.start("refund", {"log": []}, options=options)
    advance()
    deploy(build_new(), version="2", renamed=RENAMED)
    services.decide(Interrupt.objects.get(status="pending").pk, "approve")
    advance()
    for pending in Interrupt.objects.filter(status="pending"):
        services.decide(pending.pk, "respond", "yes")
    advance()
    assert [one.node for one in Interrupt.objects.filter(status="pending")] == ["settle"]


def test_registration_with_invalid_rename_makes_graph_raise_broken_graph_error(
    deploy: Deploy,
) -> None:
    deploy(build_old(), renamed={"review": "ask"})
    with pytest.raises(
        BrokenGraphError, match="'ask' as a new name, but the graph doesn't have it"
    ):
        registry.get_graph("refund")
    assert issubclass(GraphDefinitionError, ValueError)


def test_get_present_name_follows_chain_of_node_renames(deploy: Deploy) -> None:
    deploy(build_new(), renamed={"review": "check", "check": "ask"}, review=ReviewPolicy())
    assert registry.get_present_name("refund", "review") == "ask"
    assert registry.get_present_name("refund", "other") == "other"


# State migrations.


class Cents(TypedDict, total=False):
    cents: int
    log: Annotated[list, operator.add]
    calls: int


class Euros(TypedDict, total=False):
    euros: float
    total: str
    log: Annotated[list, operator.add]


def asks_twice(state_class: Any, key: str) -> StateGraph:
    def ask(word: str) -> Any:
        return lambda state: {"log": [interrupt(word), state.get(key)]}

    graph = StateGraph(state_class).add_node("one", ask("One?")).add_edge(START, "one")
    return graph.add_node("two", ask("Two?")).add_edge("one", "two")


def head_of(thread_id: str) -> str:
    checkpoint_id = (
        Checkpoint.objects.filter(thread__thread_id=thread_id, ns="")
        .latest("checkpoint_id")
        .checkpoint_id
    )
    return str(checkpoint_id)


def answer(advance: Advance, word: str) -> None:
    services.decide(Interrupt.objects.get(status="pending").pk, "respond", word)
    advance()


@pytest.mark.parametrize("paused_after", [0, 1])
def test_migrate_state_is_called_once_and_its_result_stored_with_next_checkpoint(
    deploy: Deploy, advance: Advance, paused_after: int
) -> None:
    seen: list[Any] = []

    def migrate(state: dict[str, Any], version: str) -> dict[str, Any]:
        seen.append((deepcopy(state), version))
        state["log"].append("migrated")
        return {"euros": state.pop("cents") / 100, "log": state["log"]}

    deploy(asks_twice(Cents, "cents"))
    run = services.start("refund", {"cents": 1250, "log": ["x"], "calls": 3})
    advance()
    if paused_after:
        answer(advance, "before")
    deploy(asks_twice(Euros, "euros"), version="2", migrate_state=migrate)
    before = ["x", "before", 1250] if paused_after else ["x"]
    answer(advance, "now")
    assert seen == [({"cents": 1250, "log": before, "calls": 3}, "1")]
    if not paused_after:
        answer(advance, "last")
        assert len(seen) == 1
    rest = [] if paused_after else ["last", 12.5]
    assert Run.objects.get().error == ""
    assert services.run_result(run.id) == {
        "euros": 12.5, "log": [*before, "migrated", "now", 12.5, *rest],
    }  # fmt: skip


def test_migrate_state_receives_the_version_that_stored_the_state(
    deploy: Deploy, advance: Advance
) -> None:
    came_from: list[str] = []

    def migrate(state: dict[str, Any], version: str) -> dict[str, Any]:
        came_from.append(version)
        return state

    graph = asks_twice(Cents, "cents")
    graph.add_node("three", lambda state: {"log": [interrupt("Three?")]}).add_edge("two", "three")
    deploy(graph)
    services.start("refund", {"cents": 1, "log": []})
    advance()
    deploy(graph, version="2", migrate_state=migrate)
    answer(advance, "yes")
    deploy(graph, version="3")  # a version without a migration between two with migrations
    answer(advance, "yes")
    deploy(graph, version="4", migrate_state=migrate)
    answer(advance, "yes")
    assert Run.objects.get().state == "succeeded"
    assert came_from == ["1", "3"]
    # The input of a new run has the current version and needs no migration.
    services.start("refund", {"cents": 1, "log": []})
    advance()
    answer(advance, "yes")
    assert came_from == ["1", "3"]


@pytest.mark.parametrize(
    ("migrate", "reason"),
    [
        (lambda state, version: state["gone"], "KeyError: 'gone'"),
        (lambda state, version: None, "it returned NoneType instead of a dict"),
        (lambda state, version: {"euros": "much"}, "the new value of 'euros' is not a valid float"),
        (lambda state, version: {"cents": 1}, "'cents' is not a key of the state"),
    ],
)
def test_failing_migrate_state_parks_run_and_leaves_stored_state_unchanged(
    deploy: Deploy, advance: Advance, migrate: Any, reason: str
) -> None:
    deploy(asks_twice(Cents, "cents"))
    services.start("refund", {"cents": 1250, "log": []})
    advance()
    before = Run.objects.get()
    deploy(asks_twice(Euros, "euros"), version="2", migrate_state=migrate)
    answer(advance, "yes")
    run = Run.objects.get()
    assert run.state == "parked"
    assert f"migrate_state failed from version '1' to version '2': {reason}" in run.error
    assert run.fingerprint == before.fingerprint
    # Since nothing was stored, the old code can resume the run.
    deploy(asks_twice(Cents, "cents"))
    services.retry(run.pk)
    advance()
    answer(advance, "yes")
    assert values_of(run.thread)["log"] == ["yes", 1250, "yes", 1250]


def test_start_fork_and_update_state_on_older_version_call_migrate_state(
    deploy: Deploy, advance: Advance
) -> None:
    came_from: list[str] = []

    def migrate(state: dict[str, Any], version: str) -> dict[str, Any]:
        came_from.append(version)
        return {"euros": state["cents"] / 100, "log": state["log"]}

    for way in ("input", "fork", "update"):
        deploy(asks_twice(Cents, "cents"))
        services.start("refund", {"cents": 1250, "log": []}, thread_id=way)
        advance()
        answer(advance, "yes")
        deploy(asks_twice(Euros, "euros"), version="2", migrate_state=migrate)
        if way == "input":
            services.start("refund", {"log": ["new"]}, thread_id=way, on_pending="discard")
        elif way == "fork":
            services.fork(way, head_of(way))
        else:
            services.update_state(way, {"log": ["new"]}, as_node="one")
            services.fork(way, head_of(way))
        advance()
        assert services.thread_state(way).values["euros"] == 12.5
        assert "cents" not in services.thread_state(way).values
        assert len(came_from) == 1
        for _ in range(2):
            if Interrupt.objects.filter(status="pending").exists():
                answer(advance, "yes")
        assert came_from == ["1"]
        assert Run.objects.filter(thread__thread_id=way).first().error == ""
        came_from.clear()


# Pinned versions.


def says(word: str) -> StateGraph:
    graph = StateGraph(Old).add_node("ask", lambda state: {"log": [interrupt(word), word]})
    return graph.add_edge(START, "ask").add_edge("ask", END)


def test_pinned_run_finishes_with_its_version_and_new_run_uses_the_newest(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(says("nine"), version="9", pin=True)
    old = services.start("refund", {"log": []})
    advance()
    deploy(says("nine"), version="9", pin=True)
    deploy(says("ten"), version="10", beside=True)
    new = services.start("refund", {"log": []})
    advance()
    for pending in Interrupt.objects.filter(status="pending"):
        services.decide(pending.pk, "respond", "yes")
    advance()
    assert services.run_result(old.id)["log"] == ["yes", "nine"]
    assert services.run_result(new.id)["log"] == ["yes", "ten"]
    versions = dict(Run.objects.values_list("pk", "graph_version"))
    assert versions == {old.id: "9", new.id: "10"}
    assert registry.list_versions("refund") == ["9", "10"]


def test_version_pinned_after_run_started_applies_to_that_run(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(says("one"))
    run = services.start("refund", {"log": []})
    advance()
    deploy(says("one"), pin=True)
    deploy(says("two"), version="2", beside=True)
    answer(advance, "yes")
    assert services.run_result(run.id)["log"] == ["yes", "one"]


def test_pinned_run_is_parked_until_its_missing_version_is_registered(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(says("one"), pin=True)
    run = services.start("refund", {"log": []})
    advance()
    deploy(says("two"), version="2")
    with pytest.raises(UnknownVersionError, match="pinned to version '1' of graph 'refund'"):
        services.fork(run.thread_id, head_of(run.thread_id))
    answer(advance, "yes")
    for _ in range(6):  # as many attempts as for a graph that isn't deployed here yet
        runner.advance(str(run.id))
    stopped = Run.objects.get()
    assert stopped.state == "parked"
    assert "pinned to version '1'" in stopped.error
    deploy(says("one"), pin=True)
    deploy(says("two"), version="2", beside=True)
    services.retry(run.id)
    advance()
    assert services.run_result(run.id)["log"] == ["yes", "one"]


def test_fork_of_pinned_run_uses_the_version_of_that_run(deploy: Deploy, advance: Advance) -> None:
    deploy(says("one"), pin=True)
    run = services.start("refund", {"log": []})
    advance()
    deploy(says("two"), version="2", beside=True)
    forked = services.fork(
        run.thread_id, head_of(run.thread_id), options=services.RunOptions(durability="sync")
    )
    advance()
    answer(advance, "yes")
    assert services.run_result(forked.id)["log"] == ["yes", "one"]
    assert Run.objects.get(pk=forked.id).options == {"durability": "sync", "pinned": True}


@pytest.mark.parametrize(
    ("terms", "number"),
    [
        ([{"version": "1", "pin": True}, {"version": "1", "pin": True}], 2),
        ([{"version": "1"}, {"version": "2", "pin": True}], 2),
        ([{"version": "1", "pin": True}, {"version": "2", "pin": True}], 0),
        ([{"version": "1", "pin": True}, {"version": "2"}, {"version": "2"}], 2),
        ([{"version": "1"}, {"version": "2"}], 2),
    ],
)
def test_duplicate_versions_of_graph_raise_broken_graph_error(
    deploy: Deploy, terms: list[Any], number: int
) -> None:
    registry.unregister("refund")
    for each in terms:
        deploy(says("x"), beside=True, **each)
    assert len(registry.list_duplicates().get("refund", [])) == number
    if number:
        with pytest.raises(BrokenGraphError, match="registered in"):
            registry.get_graph("refund")


# Many parked runs.


def test_retry_all_retries_each_run_and_returns_the_error_of_the_run_that_cannot_be_retried(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(build_old())
    runs = [services.start("refund", {"log": []}, thread_id=f"t{number}") for number in range(3)]
    other = services.start("steps", {"log": []})
    advance()
    Run.objects.filter(pk__in=[run.id for run in runs]).update(state="parked", error="x")
    Run.objects.filter(pk=other.id).update(state="failed")
    assert list(services.list_retryable("parked", graph="steps")) == []
    found = services.list_retryable("parked", graph="refund")
    services.cancel(runs[1].id)
    done = {each.run_id: each.error for each in services.retry_all(found)}
    assert set(done) == {runs[0].id, runs[2].id}
    assert not any(done.values())
    (refused,) = services.retry_all([runs[1].id])
    assert "can be retried" in str(refused.error)
    assert set(Run.objects.filter(state="queued").values_list("pk", flat=True)) == set(done)
    assert AuditEntry.objects.filter(verb="retry").count() == 2
    with pytest.raises(ValueError, match="state must be one of"):
        list(services.list_retryable("queued"))


def test_fork_of_thread_with_undeclared_node_rename_raises_graph_changed_error(
    deploy: Deploy, advance: Advance
) -> None:
    deploy(build_old())
    run = services.start("refund", {"log": []})
    advance()
    deploy(build_new(), version="2")
    with pytest.raises(GraphChangedError):
        services.fork(run.thread_id, head_of(run.thread_id))
