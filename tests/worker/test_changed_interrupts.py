"""Nodes that raise a different interrupt when they run again after the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl_django import audit, services, testing
from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Interrupt, Run, Thread
from tests.graphs import Log
from tests.reading import values_of

Advance = Callable[[], int]
WORDS: list[Any] = []
RUNS: list[Any] = []


@pytest.fixture
def advance(db: None) -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture(autouse=True)
def fickle() -> Iterator[None]:
    """Register a graph whose subgraph interrupts with WORDS, and then once more."""

    def ask(state: Log) -> Log:
        RUNS.append(state)
        first = interrupt(WORDS[0])
        return {"answers": [first, interrupt("Sure?")]}

    def build() -> StateGraph:
        often = RetryPolicy(0.0001, jitter=False, retry_on=Exception)
        inner = StateGraph(Log).add_node("ask", ask, retry_policy=often).add_edge(START, "ask")
        return StateGraph(Log).add_node("in", inner.compile()).add_edge(START, "in")

    registry.register("fickle")(build)
    WORDS[:], RUNS[:] = ["Pay 5?"], []
    yield
    registry.unregister("fickle")


def answered(advance: Advance) -> Interrupt:
    """Answer the interrupt, and make the node interrupt with another payload."""
    services.start("fickle", {"log": []})
    advance()
    pending = Interrupt.objects.get()
    services.decide(pending.pk, "approve")
    WORDS[:] = ["Pay 5000?"]
    advance()
    pending.refresh_from_db()
    return pending


@pytest.mark.promise("P4")
def test_interrupt_changed_after_decision_is_flagged_and_audited_once(advance: Advance) -> None:
    pending = answered(advance)
    flagged = pending.changed_at
    assert flagged is not None
    assert (pending.status, pending.payload) == ("decided", "Pay 5?")
    entry = AuditEntry.objects.get(verb="interrupt_changed")
    assert (entry.via, entry.detail["interrupts"]) == ("worker", [str(pending.pk)])

    sure = Interrupt.objects.get(title="Sure?")
    assert sure.changed_at is None
    services.decide(sure.pk, "approve")
    advance()
    assert Run.objects.get().state == "succeeded"
    assert values_of(pending.thread)["answers"] == [True, True]
    pending.refresh_from_db()
    assert pending.changed_at == flagged
    assert AuditEntry.objects.filter(verb="interrupt_changed").count() == 1
    assert audit.find_first_fault(Thread.objects.get()) is None


@pytest.mark.promise("P4")
def test_interrupt_changed_after_decision_does_not_flag_interrupt_of_another_thread(
    advance: Advance,
) -> None:
    others = [services.start("approval", {"text": "x"}) for _ in range(2)]
    services.start("fickle", {"log": []})
    advance()
    pending = Interrupt.objects.exclude(run__in=[other.id for other in others]).get()
    Interrupt.objects.filter(run=others[0].id).update(interrupt_id=pending.interrupt_id)
    services.decide(pending.pk, "approve")
    WORDS[:] = ["Pay 5000?"]
    advance()
    assert Interrupt.objects.exclude(changed_at=None).get() == pending
    assert AuditEntry.objects.get(verb="interrupt_changed").detail["interrupts"] == [
        str(pending.pk)
    ]


@pytest.mark.promise("P4")
def test_run_whose_answered_interrupt_changed_is_parked_if_on_interrupt_change_is_error(
    advance: Advance, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "ON_INTERRUPT_CHANGE": "error"}
    pending = answered(advance)
    run = Run.objects.get()
    assert run.state == "parked"
    assert "Node 'ask' asked something different after it was answered" in run.error
    # The first execution interrupts, and the second finds that the payload has changed.
    assert len(RUNS) == 2
    assert (pending.status, pending.changed_at is None) == ("decided", False)
    assert values_of(pending.thread).get("answers", []) == []

    services.retry(run.pk)
    advance()
    assert Run.objects.get().state == "parked"

    WORDS[:] = ["Pay 5?"]
    services.retry(run.pk)
    advance()
    assert Run.objects.get().state == "interrupted"
    services.decide(Interrupt.objects.get(title="Sure?").pk, "reject")
    advance()
    assert values_of(pending.thread)["answers"] == [True, False]


def test_interrupt_unchanged_after_decision_is_not_flagged(advance: Advance) -> None:
    services.start("fickle", {"log": []})
    advance()
    for _ in range(2):
        services.decide(Interrupt.objects.get(status="pending").pk, "approve")
        advance()
    assert not Interrupt.objects.exclude(changed_at=None).exists()
    assert not AuditEntry.objects.filter(verb="interrupt_changed").exists()
