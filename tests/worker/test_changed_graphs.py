"""Deployments between an interrupt and its response."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from hitl_django import services, testing
from hitl_django.checkpoints import ThreadKey
from hitl_django.engine.channels import DeltaChannel
from hitl_django.engine.constants import START
from hitl_django.engine.errors import GraphChangedError
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.node_api import interrupt
from hitl_django.errors import LeaseLostError
from hitl_django.graph_registry import compatibility, registry
from hitl_django.models import GraphShape, Interrupt, Run, Thread
from tests.graphs import Log
from tests.reading import values_of

Advance = Callable[[], int]
Deploy = Callable[..., None]


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Replace the graph "evolving" by one with these nodes in sequence. Names with ? interrupt."""
    compatibility.clear_structures()

    def node(name: str) -> Any:
        return lambda state: {"log": [interrupt(name) if name.endswith("?") else name]}

    def put(*names: str, state: Any = Log, version: str = "1") -> None:
        def build() -> StateGraph:
            graph = StateGraph(state)
            for before, name in zip((START, *names), names, strict=False):
                graph.add_node(name.rstrip("?"), node(name))
                graph.add_edge(before.rstrip("?"), name.rstrip("?"))
            return graph

        registry.unregister("evolving")
        registry.register("evolving", version=version)(build)

    yield put
    registry.unregister("evolving")
    compatibility.clear_structures()


def paused(deploy: Deploy, advance: Advance) -> Interrupt:
    deploy("plan", "review?", "pay")
    services.start("evolving", {"log": []}, thread_id="t")
    advance()
    return Interrupt.objects.get(status="pending")


@pytest.mark.promise("P15")
def test_run_paused_at_removed_node_is_parked_and_succeeds_after_node_is_restored(
    deploy: Deploy, advance: Advance
) -> None:
    interrupt = paused(deploy, advance)
    before = Run.objects.get().fingerprint
    for other in ("", "~"):  # structures of other graphs don't matter
        GraphShape.objects.create(
            fingerprint=other, graph="x", shape=registry.get_graph("steps").structure
        )
    deploy("plan", "check?", "pay", version="2")
    services.decide(interrupt.pk, "respond", "fine")
    advance()
    run = Run.objects.get()
    assert (run.state, run.fingerprint) == ("parked", before)
    assert run.error == (
        "GraphChangedError: The stored thread is incompatible with the current structure of "
        "graph 'evolving': node 'review' was removed."
    )
    interrupt.refresh_from_db()
    assert interrupt.status == "decided"
    services.retry(run.pk)
    advance()
    assert Run.objects.get().state == "parked"

    deploy("plan", "review?", "check", "pay", version="3")
    services.retry(run.pk)
    advance()
    run = Run.objects.get()
    assert (run.state, run.error) == ("succeeded", "")
    assert values_of(interrupt.thread)["log"] == ["plan", "fine", "check", "pay"]
    assert run.fingerprint == registry.get_graph("evolving").fingerprint != before
    stored = GraphShape.objects.filter(graph="evolving")
    assert set(stored.values_list("version", flat=True)) == {"1", "3"}


class DeltaLog(TypedDict):
    log: Annotated[list[Any], DeltaChannel(lambda old, writes: sum(writes, old))]


@pytest.mark.promise("P15")
@pytest.mark.parametrize(("before", "after"), [(Log, DeltaLog), (DeltaLog, Log)])
def test_run_paused_before_change_between_reducer_and_delta_channel_keeps_its_list(
    deploy: Deploy, advance: Advance, before: Any, after: Any
) -> None:
    items = [f"item {number}" for number in range(200)]
    deploy("plan", "review?", "check?", "pay", state=before)
    services.start("evolving", {"log": items}, thread_id="t")
    advance()
    for state, expected in [(after, ["plan", "A"]), (before, ["plan", "A", "A", "pay"])]:
        deploy("plan", "review?", "check?", "pay", state=state, version=state.__name__)
        pending = Interrupt.objects.get(status="pending")
        services.decide(pending.pk, "respond", "A")
        advance()
        assert Run.objects.get().error == ""
        assert values_of(pending.thread)["log"] == [*items, *expected]
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P15")
def test_run_of_unchanged_graph_structure_resumes_without_comparing_structures(
    deploy: Deploy, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = paused(deploy, advance)
    deploy("plan", "review?", "pay", version="1.0.1")
    monkeypatch.setattr(compatibility, "adopt_structure", None)
    services.decide(interrupt.pk, "approve")
    advance()
    assert Run.objects.get().state == "succeeded"


@pytest.mark.promise("P15")
def test_graph_structure_of_new_version_is_stored_before_run_resumes(
    deploy: Deploy, advance: Advance
) -> None:
    interrupt = paused(deploy, advance)
    other = services.start("steps", {"log": []})
    of_other = Run.objects.get(pk=other.id).fingerprint
    deploy("plan", "review?", "more?", "pay")
    services.decide(interrupt.pk, "approve")
    advance()
    assert Interrupt.objects.get(status="pending").node == "more"
    run = Run.objects.get(pk=interrupt.run_id)
    assert run.fingerprint == registry.get_graph("evolving").fingerprint
    assert Run.objects.get(pk=other.id).fingerprint == of_other

    # Restore the old code, which doesn't have this node.
    deploy("plan", "review?", "pay")
    services.decide(Interrupt.objects.get(status="pending").pk, "approve")
    advance()
    run.refresh_from_db()
    assert "node 'more' was removed" in run.error


@pytest.mark.promise("P10")
def test_worker_whose_lease_was_taken_over_cannot_store_a_graph_structure(
    deploy: Deploy, advance: Advance
) -> None:
    paused(deploy, advance)
    run, thread = Run.objects.get(), Thread.objects.get()
    Thread.objects.create(thread_id="another", epoch=thread.epoch - 1)
    deploy("plan", "review?", "pay", "mail")
    late = ThreadKey(thread.pk, thread.thread_id, thread.epoch - 1)
    with pytest.raises(LeaseLostError):
        compatibility.adopt_structure(run.pk, late, run.fingerprint, registry.get_graph("evolving"))
    assert Run.objects.get().fingerprint == run.fingerprint


class Counted(Log, total=False):
    log: int  # type: ignore[misc]


@pytest.mark.promise("P15")
def test_start_with_on_pending_discard_checks_changed_channels_but_not_removed_nodes(
    deploy: Deploy, advance: Advance
) -> None:
    interrupt = paused(deploy, advance)
    deploy("plan", "check?", "pay", state=Counted)
    with pytest.raises(GraphChangedError, match="channel 'log'") as caught:
        services.start("evolving", {"log": 1}, thread_id="t", on_pending="discard")
    assert len(caught.value.changes) == 1
    interrupt.refresh_from_db()
    assert interrupt.status == "pending"
    assert Run.objects.count() == 1

    deploy("plan", "check?", "pay")
    services.start("evolving", {"log": []}, thread_id="t", on_pending="discard")
    advance()
    assert Interrupt.objects.get(status="pending").node == "check"


def test_run_whose_stored_graph_structure_was_deleted_logs_warning_and_resumes(
    deploy: Deploy, advance: Advance, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt = paused(deploy, advance)
    GraphShape.objects.all().delete()
    deploy("plan", "review?", "mail")
    services.decide(interrupt.pk, "approve")
    with caplog.at_level(logging.WARNING):
        advance()
    assert "is not stored" in caplog.text
    assert Run.objects.get().state == "succeeded"
