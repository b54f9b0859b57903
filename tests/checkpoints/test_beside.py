"""Durability "async": a second connection stores a step while the next step runs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from typing_extensions import TypedDict

from hitl_django import START, Command, StateGraph, interrupt
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.commit_threads import commit_threads
from hitl_django.errors import LeaseLostError
from hitl_django.models import Checkpoint, Thread

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    kept: dict[str, Any]
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a graph with durability "async", which stores each step while the next one runs."""

    def call(graph: Any, value: Any) -> Any:
        return graph.invoke(value, CONFIG, durability="async")

    async def acall(graph: Any, value: Any) -> Any:
        return await graph.ainvoke(value, CONFIG, durability="async")

    return call if request.param == "sync" else async_to_sync(acall)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the commits that another OS thread has stored."""
    made: list[Any] = []
    submit = commit_threads.submit

    def noted(store: Callable[[], None]) -> Any:
        made.append(submit(store))
        return made[-1]

    monkeypatch.setattr(commit_threads, "submit", noted)
    return made


def line(*nodes: Callable[[Any], Any]) -> Any:
    graph, before = StateGraph(State), START
    for number, node in enumerate(nodes):
        graph.add_node(f"n{number}", node).add_edge(before, f"n{number}")
        before = f"n{number}"
    return graph.compile(checkpointer=DjangoSaver())


def log(state: State) -> State:
    return {"log": ["line"]}


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def test_run_with_async_durability_stores_the_history_of_every_super_step(
    invoke: Callable[..., Any], begun: list[Any]
) -> None:
    graph = line(log, log, ask, log, log)
    invoke(graph, {"log": []})
    assert invoke(graph, Command(resume="yes"))["log"] == ["line", "line", "yes", "line", "line"]
    history = [found.values.get("log", []) for found in graph.get_state_history(CONFIG)]
    assert [len(each) for each in history] == [5, 4, 3, 2, 1, 0, 0]
    assert len(begun) == (0 if connection.vendor == "sqlite" else 5)
    assert Thread.objects.get().lease_until is None


def test_run_with_async_durability_stores_value_without_later_mutations(
    invoke: Callable[..., Any], begun: list[Any]
) -> None:
    kept: dict[str, Any] = {"list": [1]}

    def change(state: State) -> None:
        kept["list"].append(2)

    graph = line(lambda state: {"kept": kept}, change, change)
    invoke(graph, {"log": []})
    stored = [found.values.get("kept") for found in graph.get_state_history(CONFIG)]
    assert {"list": [1]} in stored
    assert stored[0] == {"list": [1]}


def test_run_with_async_durability_restores_list_stored_as_deltas(
    invoke: Callable[..., Any], begun: list[Any]
) -> None:
    graph = line(*[lambda state: {"log": ["a line that is long enough"] * 50}] * 6)
    invoke(graph, {"log": []})
    assert len(graph.get_state(CONFIG).values["log"]) == 300


def test_run_with_async_durability_and_lost_lease_raises_error_and_stores_no_later_step(
    begun: list[Any],
) -> None:
    def lose(state: State) -> State:
        Thread.objects.update(epoch=99, lease_owner="somebody else")
        return {"log": ["lose"]}

    graph = line(log, lose, log, log)
    with pytest.raises(LeaseLostError):
        graph.invoke({"log": []}, CONFIG, durability="async")
    assert max(Checkpoint.objects.values_list("step", flat=True)) <= 1


def test_run_with_async_durability_in_rolled_back_transaction_leaves_no_thread(
    begun: list[Any],
) -> None:
    with transaction.atomic():
        line(log, log).invoke({"log": []}, CONFIG, durability="async")
        transaction.set_rollback(True)
    assert (begun, Thread.objects.count()) == ([], 0)


def test_run_with_async_durability_stores_subgraph_checkpoints_after_parent_checkpoints(
    invoke: Callable[..., Any], begun: list[Any]
) -> None:
    below = StateGraph(State).add_node("x", log).add_node("y", ask)
    below.add_edge(START, "x").add_edge("x", "y")
    graph = line(log, below.compile(), log)
    invoke(graph, {"log": []})
    spaces = list(Checkpoint.objects.order_by("pk").values_list("ns", flat=True))
    assert [bool(ns) for ns in spaces] == sorted(bool(ns) for ns in spaces)
    assert invoke(graph, Command(resume="yes"))["log"] == ["line", "line", "line", "yes", "line"]
