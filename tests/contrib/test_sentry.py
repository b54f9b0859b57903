"""Sentry reports of runs: tags, and errors without contents of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
import sentry_sdk
from django.apps import AppConfig
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from hitl_django import run_leases
from hitl_django.contrib.sentry.segments import observe_segment
from hitl_django.engine.constants import START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.types import RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.testing import GraphEnvironment
from hitl_django.worker import observers

SECRET = "canary 4711"


class State(TypedDict, total=False):
    text: str


class MemoryTransport(Transport):
    """Transport that stores events instead of sending them."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self.events.append(dict(event))


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    """Install the app like INSTALLED_APPS, and return the events sent to Sentry."""
    transport = MemoryTransport()
    before = sentry_sdk.get_global_scope().client
    sentry_sdk.init(
        dsn="https://key@sentry.example/1",
        transport=transport,
        default_integrations=False,
        integrations=[LoggingIntegration()],
    )
    AppConfig.create("hitl_django.contrib.sentry").ready()
    yield transport.events
    observers.remove_observer(observe_segment)
    sentry_sdk.get_global_scope().set_client(before)
    registry.unregister("reported")


def start(hitl: GraphEnvironment, graph: StateGraph) -> Any:
    registry.register("reported")(graph.compile)
    return hitl.start("reported", {"text": SECRET})


def test_sentry_reports_failed_node_once_with_run_tags_and_without_variables(
    hitl: GraphEnvironment, sent: list[dict[str, Any]]
) -> None:
    def fail(state: State) -> State:
        held = state["text"]
        raise LookupError(f"no row of {len(held)}")

    retry = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=LookupError)
    graph = StateGraph(State).add_node("fail", fail, retry_policy=retry).add_edge(START, "fail")
    run = start(hitl, graph)
    hitl.assert_failed(run, "LookupError")
    (event,) = sent
    assert event["tags"] == {"run": str(run.id), "graph": "reported", "node": "fail"}
    assert event["exception"]["values"][-1]["type"] == "LookupError"
    assert SECRET not in str(event)
    frames = event["exception"]["values"][-1]["stacktrace"]["frames"]
    assert frames[-1]["function"] == "fail"
    assert not any("vars" in frame for frame in frames)


def test_sentry_event_captured_in_a_node_has_tags_of_run_graph_and_node(
    hitl: GraphEnvironment, sent: list[dict[str, Any]]
) -> None:
    def report(state: State) -> State:
        sentry_sdk.capture_message("seen")
        return {}

    graph = StateGraph(State)
    for name in ("one", "two"):
        graph.add_node(name, report).add_edge(START, name)
    run = start(hitl, graph)
    tags = {"run": str(run.id), "graph": "reported"}
    assert sorted((event["tags"] for event in sent), key=str) == [
        {**tags, "node": "one"},
        {**tags, "node": "two"},
    ]
    sentry_sdk.capture_message("afterwards")
    assert "tags" not in sent[-1]


def test_sentry_event_from_worker_log_has_tags_of_its_run(
    hitl: GraphEnvironment, sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise ConnectionError(SECRET)

    monkeypatch.setattr(run_leases, "keep_renewed", refuse)
    graph = StateGraph(State).add_node("one", lambda state: {}).add_edge(START, "one")
    run = start(hitl, graph)
    assert len(sent) > 0
    for event in sent:
        assert event["tags"] == {"run": str(run.id), "graph": "reported"}
        assert event["logentry"]["message"] == "run %s failed to continue: %s"
        assert event["extra"]["thread_id"] == run.thread_id
        assert SECRET not in str(event)


def test_sentry_gets_no_event_for_an_interrupt(
    hitl: GraphEnvironment, sent: list[dict[str, Any]]
) -> None:
    run = hitl.start("approval", {"text": "x"})
    hitl.decide(run=run, type="approve")
    hitl.assert_finished(run)
    assert sent == []
