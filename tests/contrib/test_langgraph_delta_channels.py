"""LangGraph's DeltaChannels: displayed, stored and forked like other channels."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.types import Overwrite, interrupt
from rest_framework.test import APIClient
from typing_extensions import TypedDict

from hitl_django import decide, services, start, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.langgraph import DjangoCheckpointer, register_langgraph
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Interrupt, Run
from hitl_django.services import fork
from hitl_django.services.runs.archives import is_archived
from hitl_django.testing.clock import move_back
from hitl_django.worker import retention

pytestmark = pytest.mark.django_db

Advance = Callable[[], int]
#: The inputs of the node ``talk``, in the order of its calls.
seen: list[list[str]] = []


def join(held: list[str], writes: list[Any]) -> list[str]:
    return [*held, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    """A log in pieces, beside a count."""

    log: Annotated[list[str], DeltaChannel(join)]
    unused: Annotated[list[str], DeltaChannel(join)]
    count: int


def talk(state: State) -> Any:
    seen.append(state["log"])
    return {"log": ["talk"]}


def count(state: State) -> Any:
    return {"count": state.get("count", 0) + 1}


def build(*, below: bool = False, ask: bool = False, **compiled: Any) -> Any:
    """Return a graph with a node that adds to the log, and a node that doesn't."""
    graph = StateGraph(State).add_node("count", count).add_edge("talk", "count")
    if below:
        inner = StateGraph(State).add_node("talk", talk).add_node("ask", ask_once)
        inner.add_edge("__start__", "talk").add_edge("talk", "ask")
        graph.add_node("talk", inner.compile())
    else:
        graph.add_node("talk", talk)
    return graph.add_edge("__start__", "talk").compile(**compiled)


def ask_once(state: State) -> Any:
    return {"log": [interrupt("what?")]}


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    seen.clear()
    with registry.hide_graphs():
        register_langgraph("pieces", version="1")(build)
        yield


@pytest.fixture
def advance() -> Iterator[Advance]:
    with testing.inline() as function:
        yield function


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer."""

    def stop(*args: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_on(advance: Advance, word: str, thread_id: str = "t", graph: str = "pieces") -> Run:
    run = start(graph, {"log": [word]}, thread_id=thread_id)
    advance()
    row = Run.objects.get(pk=run.id)
    assert row.state == "succeeded", row.error
    return row


def at(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_delta_channel_value_is_in_run_result_thread_state_and_api_responses(
    advance: Advance, durability: Any
) -> None:
    register_langgraph("stored", durability=durability)(build)
    run = run_on(advance, "one", graph="stored")
    values = {"log": ["one", "talk"], "count": 1}
    assert services.run_result(run.pk) == {**values, "unused": []}
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("root"))
    assert client.get(f"/hitl/api/v1/runs/{run.pk}/").json()["result"]["log"] == values["log"]
    state = client.get("/agent/threads/t/state").json()
    assert (state["values"]["log"], state["values"]["count"]) == (["one", "talk"], 1)


def test_delta_channel_values_in_state_history_match_langgraph(advance: Advance) -> None:
    run_on(advance, "one")
    theirs = build(checkpointer=InMemorySaver())
    theirs.invoke({"log": ["one"]}, at("t"))
    expected = [state.values for state in theirs.get_state_history(at("t"))]
    assert [state.values for state in services.state_history("t")] == expected
    assert len(expected) == 4


def test_delta_channel_value_of_interrupted_subgraph_is_in_its_state(advance: Advance) -> None:
    register_langgraph("below")(lambda: build(below=True))
    start("below", {"log": ["one"]}, thread_id="t")
    advance()
    [task] = services.thread_state("t", subgraphs=True).tasks  # type: ignore[union-attr]
    assert task.state is not None
    assert task.state.values["log"] == ["one", "talk"]
    decide(Interrupt.objects.get().pk, "respond", "answer")
    advance()
    state = services.thread_state("t")
    assert state is not None
    assert state.values["log"] == ["one", "one", "talk", "answer"]


def test_delta_channel_overwritten_by_node_has_only_the_new_values(advance: Advance) -> None:
    graph = StateGraph(State).add_node("n", lambda state: {"log": Overwrite(["new"])})
    register_langgraph("overwrites")(lambda: graph.add_edge("__start__", "n"))
    run = run_on(advance, "one", graph="overwrites")
    assert services.run_result(run.pk)["log"] == ["new"]


def prune() -> None:
    move_back(timedelta(days=2))
    assert sum(retention.prune_ended(1)) == 1


def test_delta_channel_values_are_complete_after_pruning_the_thread(advance: Advance) -> None:
    run_on(advance, "one")
    run_on(advance, "two")
    prune()
    assert Checkpoint.objects.count() == 1
    state = services.thread_state("t")
    assert state is not None
    assert state.values == {"log": ["one", "talk", "two", "talk"], "count": 2, "unused": []}
    run_on(advance, "three")
    assert seen[-1] == ["one", "talk", "two", "talk", "three"]


def test_delta_channel_values_are_complete_after_deleting_checkpoints_of_a_run(
    advance: Advance,
) -> None:
    first = run_on(advance, "one")
    run_on(advance, "two")
    DjangoSaver().delete_for_runs([str(first.pk)])
    run_on(advance, "three")
    assert seen[-1] == ["one", "talk", "two", "talk", "three"]


def test_delta_channel_values_are_complete_in_copied_and_restored_threads(advance: Advance) -> None:
    run_on(advance, "one")
    move_back(timedelta(days=2))
    copy = services.copy_thread("t").thread_id
    archive_ended(1, 10)
    assert is_archived("t")
    for thread_id in ("t", copy):
        run_on(advance, "two", thread_id)
        assert seen[-1] == ["one", "talk", "two"]


def test_delta_channel_values_are_complete_after_fork_and_update_state(advance: Advance) -> None:
    run_on(advance, "one")
    run_on(advance, "two")
    history = services.state_history("t")
    with within(20):
        fork("t", None)
        fork("t", None, values={"count": 5})
        advance()
        assert services.thread_state("t").values["log"] == ["one", "talk", "two", "talk"]  # type: ignore[union-attr]
        services.update_state("t", {"log": ["by hand"]})
        # Fork before the second run's node, whose writes belong to the abandoned branch.
        [earlier] = [state for state in history if state.step == 3]
        fork("t", earlier.checkpoint_id)
        advance()
    assert seen[-1] == ["one", "talk", "two"]
    assert services.thread_state("t").values["log"] == ["one", "talk", "two", "talk"]  # type: ignore[union-attr]


@pytest.mark.django_db(transaction=True)
def test_delta_channel_values_written_by_langgraph_are_read_by_a_run(
    advance: Advance,
) -> None:
    build(checkpointer=DjangoCheckpointer()).invoke({"log": ["theirs"]}, at("t"))
    run_on(advance, "ours")
    assert seen[-1] == ["theirs", "talk", "ours"]
    assert services.thread_state("t").values["log"] == ["theirs", "talk", "ours", "talk"]  # type: ignore[union-attr]


@pytest.mark.django_db(transaction=True)
class TestLangGraphThreads:
    """Threads of graphs that LangGraph executes with this package's checkpointer."""

    @pytest.fixture
    def graph(self) -> Any:
        return build(checkpointer=DjangoCheckpointer())

    def test_delta_channel_values_of_langgraph_thread_are_unchanged_by_pruning(
        self, graph: Any
    ) -> None:
        for word in ("one", "two"):
            graph.invoke({"log": [word]}, at("t"))
        before = graph.get_state(at("t")).values
        graph.checkpointer.prune(["t"])
        assert graph.get_state(at("t")).values == before
        graph.invoke({"log": ["three"]}, at("t"))
        assert seen[-1] == ["one", "talk", "two", "talk", "three"]

    def test_pruning_langgraph_thread_deletes_checkpoints_before_the_delta_channel_snapshot(
        self,
    ) -> None:
        class Snapshots(TypedDict):
            log: Annotated[list[str], DeltaChannel(join, snapshot_frequency=2)]
            unused: Annotated[list[str], DeltaChannel(join)]

        made = StateGraph(Snapshots).add_node("talk", lambda state: {"log": ["talk"]})
        made.add_edge("__start__", "talk")
        graph: Any = made.compile(checkpointer=DjangoCheckpointer())
        for word in ("one", "two", "three"):
            graph.invoke({"log": [word]}, at("t"))
        before, stored = graph.get_state(at("t")).values, Checkpoint.objects.count()
        graph.checkpointer.prune(["t"])
        assert graph.get_state(at("t")).values == before
        assert Checkpoint.objects.count() < stored / 2

    def test_delta_channel_values_of_langgraph_thread_are_unchanged_by_deleting_a_run(
        self, graph: Any
    ) -> None:
        for word in ("one", "two"):
            graph.invoke({"log": [word]}, {**at("t"), "metadata": {"run_id": word}})
        before = graph.get_state(at("t")).values
        graph.checkpointer.delete_for_runs(["one"])
        assert graph.get_state(at("t")).values == before
        graph.checkpointer.delete_for_runs(["one", "two"])
        assert not Checkpoint.objects.exists()

    def test_delta_channel_values_of_langgraph_thread_are_complete_in_its_copy(
        self, graph: Any
    ) -> None:
        graph.invoke({"log": ["one"]}, at("t"))
        graph.checkpointer.copy_thread("t", "copy")
        assert graph.get_state(at("copy")).values["log"] == ["one", "talk"]
