"""Events of runs and interrupts, and the functions that subscribe to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from hitl_django import events, extensions, services, testing
from hitl_django.events import EventName
from hitl_django.extensions import Event, Extension, register
from hitl_django.models import Interrupt, Run


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_registered", {})


@pytest.fixture
def advance(db: None) -> Iterator[Callable[[], int]]:
    with testing.inline() as advance_all:
        yield advance_all


def ask(advance: Callable[[], int]) -> Interrupt:
    run = services.start("approval", {"text": "x"})
    advance()
    return Interrupt.objects.get(run=run.id)


def test_event_subscriber_receives_created_decided_and_succeeded_events_of_a_run(
    advance: Callable[[], int],
) -> None:
    found: list[Event] = []
    register(Extension(name="first", subscribers=[lambda batch, event: found.append(event)]))
    interrupt = ask(advance)
    services.decide(interrupt.pk, "approve")
    advance()
    names = [EventName.INTERRUPT_CREATED, EventName.INTERRUPT_DECIDED, EventName.RUN_SUCCEEDED]
    assert [(each.name, each.graph) for each in found] == [(name, "approval") for name in names]
    assert [each.is_assigned for each in found] == [False, True, True]
    assert found[1].data == {
        "graph": "approval",
        "interrupt_id": interrupt.pk,
        "digest": interrupt.payload_digest,
        "run_id": interrupt.run_id,
        "thread_id": interrupt.thread.thread_id,
        "decision_id": interrupt.decisions.get().pk,
    }


def test_event_subscriber_error_rolls_back_the_decision(advance: Callable[[], int]) -> None:
    interrupt = ask(advance)

    def refuse(batch: Any, event: Event) -> None:
        raise ValueError(event.name)

    register(Extension(name="first", subscribers=[refuse]))
    with pytest.raises(ValueError, match=r"interrupt\.decided"):
        services.decide(interrupt.pk, "approve")
    assert not interrupt.decisions.exists()
    assert (Interrupt.objects.get().status, Run.objects.get().state) == ("pending", "interrupted")


def test_event_registered_by_two_extensions_raises_improperly_configured() -> None:
    register(Extension(name="first", events={"rating.given": "a rating was given"}))
    with pytest.raises(ImproperlyConfigured, match=r"'second' .* event 'rating\.given'.* 'first'"):
        register(Extension(name="second", events={"rating.given": "stars"}))


@pytest.mark.slow
def test_event_labels_include_events_of_extensions() -> None:
    register(Extension(name="first", events={"rating.given": "a rating was given"}))
    labels = events.list_labels()
    assert labels["rating.given"] == "a rating was given"
    assert {*labels} == {"rating.given", *EventName.values}
