"""Workers that find due runs without messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models.functions import Now
from django_q.models import OrmQ

from hitl_django import StateGraph, register, services
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.worker import advance_due, runner
from tests.messages import count_due_runs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other_graph() -> Iterator[str]:
    name = "a second graph"

    @register(name, version="1")
    def second() -> StateGraph:
        graph = StateGraph(dict).add_node("only", lambda state: state)
        return graph.set_entry_point("only").set_finish_point("only")

    yield name
    registry.unregister(name)


def test_worker_executes_due_runs_of_graphs_in_turn(
    other_graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        services.start("steps", {"log": []})
    for _ in range(2):
        services.start(other_graph, {})
    executed: list[str] = []
    advance = runner._advance
    monkeypatch.setattr(
        runner, "_advance", lambda lease: (executed.append(lease.graph), advance(lease))
    )
    monkeypatch.setattr(runner, "_last_graph", "steps")
    advance_due()
    assert executed == [other_graph, "steps", other_graph, *["steps"] * 4]
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}


def test_worker_executes_no_further_due_run_after_the_time_limit_of_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "TURN", 0.0)
    for _ in range(2):
        services.start("steps", {"log": []})
    advance_due()
    assert sorted(Run.objects.values_list("state", flat=True)) == ["queued", "succeeded"]


@pytest.mark.promise("P8")
def test_draining_worker_claims_no_due_run_and_puts_messages_back_into_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = services.start("steps", {"log": []})
    monkeypatch.setattr(runner, "_drain_reason", "shutdown")
    advance_due()
    runner.advance(str(run.id))
    # The message may be about a waiting run, which workers don't find without a message.
    assert OrmQ.objects.get().task["args"] == (str(run.id),)
    assert count_due_runs() == 1


def test_turn_of_worker_is_a_tenth_of_a_short_time_slice(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "TIME_SLICE_SECONDS": 1e-9}
    monkeypatch.setattr(runner, "_advance", lambda lease: None)
    for _ in range(2):
        services.start("steps", {"log": []})
    advance_due()
    assert count_due_runs() == 1


@pytest.mark.promise("P11")
def test_run_of_unregistered_graph_is_due_again_only_after_the_sweep_interval() -> None:
    info = services.start("steps", {"log": []})
    Run.objects.update(graph="not deployed here")
    advance_due()
    row = Run.objects.get(pk=info.id)
    assert (row.state, count_due_runs()) == ("queued", 0)
    assert "not deployed here" in row.error
    Run.objects.update(queued_at=Now())
    assert count_due_runs() == 1
