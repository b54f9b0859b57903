"""Traces and metrics in OpenTelemetry: one trace per run, figures, and no payloads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypedDict
from uuid import UUID, uuid4

import pytest
from django.apps import AppConfig
from opentelemetry import metrics as otel_metrics
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

from hitl_django import services, signals
from hitl_django.contrib.opentelemetry import metrics
from hitl_django.contrib.opentelemetry.segments import observe_segment
from hitl_django.contrib.opentelemetry.trace_ids import format_trace_id, make_ids
from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.functional import entrypoint, task
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import Expiry, RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.services import RunInfo
from hitl_django.testing import GraphEnvironment
from hitl_django.worker import observers

# Signals are sent after the commit.
pytestmark = pytest.mark.django_db(transaction=True)

UID = "hitl_django.opentelemetry"
SECRET = "canary 4711"


class Telemetry:
    """The signals received by a project's providers."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter, self._reader = exporter, reader

    def list_spans(self, name: str = "") -> list[ReadableSpan]:
        spans = self._exporter.get_finished_spans()
        return [span for span in spans if span.name.startswith(name)]

    def get_span(self, name: str) -> ReadableSpan:
        (span,) = self.list_spans(name)
        return span

    def list_points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def find_parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def get_id(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


Install = Callable[..., Telemetry]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install the app as INSTALLED_APPS does, with providers that store the received signals."""

    def install(**options: Any) -> Telemetry:
        exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(**options), MeterProvider([reader])
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
        monkeypatch.setattr(otel_metrics._internal, "_METER_PROVIDER", meters)
        metrics.get_instruments.cache_clear()
        AppConfig.create("hitl_django.contrib.opentelemetry").ready()
        return Telemetry(exporter, reader)

    yield install
    metrics.get_instruments.cache_clear()
    observers.remove_observer(observe_segment)
    for signal in (signals.interrupt_decided, signals.interrupt_expired):
        signal.disconnect(dispatch_uid=UID)
    for signal in (signals.run_succeeded, signals.run_failed, signals.run_cancelled):
        signal.disconnect(dispatch_uid=UID)


@pytest.fixture(autouse=True)
def unregistered() -> Iterator[None]:
    yield
    registry.unregister("traced")


def start(hitl: GraphEnvironment, graph: Any, value: Any) -> RunInfo:
    """Start a run of a graph that is registered for this test."""
    registry.unregister("traced")
    registry.register("traced")(lambda: graph)
    return hitl.start("traced", value)


class State(TypedDict, total=False):
    text: str
    answer: Any


def test_opentelemetry_run_with_interrupt_is_one_trace_without_payload(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()
    run = hitl.start("approval", {"text": SECRET})
    interrupt = hitl.interrupt(run=run)
    with trace.get_tracer("product").start_as_current_span("request") as request:
        hitl.decide(run=run, type="approve")
    spans = [span for span in told.list_spans() if span.name != "request"]
    names = sorted(span.name for span in spans)
    segment = ["advance", "super-step", "node ask"]
    assert names == sorted([*segment, "interrupt", "decision", *segment, "run"])
    trace_id, run_span = make_ids(run.id)
    assert {span.context.trace_id for span in spans} == {trace_id}
    assert format_trace_id(run.id) == f"{trace_id:032x}"

    root = told.get_span("run")
    assert (get_id(root), root.parent) == (run_span, None)
    assert root.attributes == {
        "hitl.run.id": str(run.id),
        "hitl.thread.id": run.thread_id,
        "hitl.graph": "approval",
        "hitl.outcome": "succeeded",
    }
    first, second = told.list_spans("advance")
    assert {find_parent_id(first), find_parent_id(second)} == {run_span}
    assert [span.attributes["hitl.outcome"] for span in (first, second)] == [
        "interrupted",
        "finished",
    ]
    steps, nodes = told.list_spans("super-step"), told.list_spans("node")
    assert [find_parent_id(step) for step in steps] == [get_id(first), get_id(second)]
    assert [find_parent_id(node) for node in nodes] == [get_id(step) for step in steps]
    assert [node.attributes["hitl.outcome"] for node in nodes] == ["asked", "finished"]
    assert all(node.attributes["hitl.node"] == "ask" for node in nodes)
    assert all(node.attributes["hitl.attempt"] == 1 for node in nodes)

    asked, decided = told.get_span("interrupt"), told.get_span("decision")
    assert find_parent_id(asked) == run_span
    assert find_parent_id(decided) == get_id(asked)
    assert asked.attributes["hitl.outcome"] == "decided"
    assert decided.attributes["hitl.decision.type"] == "approve"
    assert decided.attributes["hitl.interrupt.id"] == str(interrupt.id)
    assert [link.context.span_id for link in decided.links] == [request.get_span_context().span_id]
    created = int(interrupt.created_at.timestamp() * 1e6) * 1000
    assert asked.start_time == created
    assert asked.end_time == decided.start_time
    assert SECRET not in "".join(span.to_json() for span in told.list_spans())


def test_opentelemetry_metrics_have_graph_node_decision_type_and_outcome(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()
    run = hitl.start("approval", {"text": SECRET})
    hitl.decide(run=run, type="approve")
    (runs,) = told.list_points("hitl.runs")
    assert (runs.value, dict(runs.attributes)) == (
        1,
        {"hitl.graph": "approval", "hitl.outcome": "succeeded"},
    )
    (wait,) = told.list_points("hitl.decision.wait")
    assert (wait.count, dict(wait.attributes)) == (
        1,
        {"hitl.graph": "approval", "hitl.decision.type": "approve"},
    )
    assert max(wait.explicit_bounds) == 30 * 86400
    nodes = told.list_points("hitl.node.duration")
    assert sorted((point.count, point.attributes["hitl.outcome"]) for point in nodes) == [
        (1, "asked"),
        (1, "finished"),
    ]


def test_opentelemetry_interrupt_span_lasts_from_creation_to_decision(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()
    run = hitl.start("approval", {"text": "x"})
    hitl.advance_time(days=3)
    hitl.decide(run=run, type="approve")
    asked = told.get_span("interrupt")
    assert (asked.end_time - asked.start_time) / 1e9 == pytest.approx(3 * 86400, abs=60)
    (wait,) = told.list_points("hitl.decision.wait")
    assert wait.sum == pytest.approx(3 * 86400, abs=60)


def test_opentelemetry_spans_of_failed_node_contain_only_the_error_class(
    hitl: GraphEnvironment, install: Install
) -> None:
    told, calls = install(), []

    def fail(state: State) -> State:
        calls.append(1)
        raise LookupError(SECRET)

    retry = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=LookupError)
    graph = StateGraph(State).add_node("fail", fail, retry_policy=retry).add_edge(START, "fail")
    start(hitl, graph.compile(), {"text": SECRET})
    assert len(calls) == 2
    node = told.get_span("node fail")
    assert node.status.status_code == StatusCode.ERROR
    assert node.attributes["error.type"] == "LookupError"
    assert (node.attributes["hitl.attempt"], node.attributes["hitl.outcome"]) == (2, "failed")
    assert told.get_span("advance").attributes["error.type"] == "LookupError"
    assert told.get_span("run").attributes["hitl.outcome"] == "failed"
    assert SECRET not in "".join(span.to_json() for span in told.list_spans())


def test_opentelemetry_subgraph_and_task_spans_are_children_of_their_callers(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()

    @task
    def look(number: int) -> int:
        return number

    def below(state: State) -> State:
        with trace.get_tracer("product").start_as_current_span("query"):
            return {"answer": 1}

    inner = StateGraph(State).add_node("below", below).add_edge(START, "below").compile()
    outer = StateGraph(State).add_node("call", inner).add_edge(START, "call")
    outer.add_node("last", lambda state: {"answer": 2}).add_edge("call", "last")
    start(hitl, outer.add_edge("last", END).compile(), {"text": "x"})
    call, beneath = told.get_span("node call"), told.get_span("node below")
    step = next(
        span for span in told.list_spans("super-step") if get_id(span) == find_parent_id(beneath)
    )
    assert find_parent_id(step) == get_id(call)
    assert step.attributes["hitl.namespace"].startswith("call:")
    assert step.end_time <= call.end_time + 1_000_000
    assert find_parent_id(told.get_span("query")) == get_id(beneath)
    assert len(told.list_spans("super-step")) == 3

    @entrypoint()
    def workflow(number: int) -> int:
        return look(number).result()

    start(hitl, workflow, 1)
    assert find_parent_id(told.get_span("node look")) == get_id(told.get_span("node workflow"))


def test_opentelemetry_parallel_nodes_are_children_of_one_super_step_span(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()
    graph = StateGraph(State)
    for name in ("one", "two"):
        graph.add_node(name, lambda state: {}).add_edge(START, name)
    start(hitl, graph.compile(), {"text": "x"})
    step = told.get_span("super-step")
    nodes = told.list_spans("node")
    assert sorted(node.name for node in nodes) == ["node one", "node two"]
    assert {find_parent_id(node) for node in nodes} == {get_id(step)}


def test_opentelemetry_span_of_expired_interrupt_has_outcome_expired(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()

    def ask(state: State) -> State:
        return {"answer": interrupt("Well?", expires=Expiry(timedelta(seconds=60)))}

    start(hitl, StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(), {})
    hitl.advance_time(minutes=2)
    assert told.get_span("interrupt").attributes["hitl.outcome"] == "expired"
    (runs,) = told.list_points("hitl.runs")
    assert runs.attributes["hitl.outcome"] == "parked"
    assert told.list_spans("run") == []  # the node may continue


def test_opentelemetry_run_span_of_cancelled_run_has_outcome_cancelled(
    hitl: GraphEnvironment, install: Install
) -> None:
    told = install()
    run = hitl.start("approval", {"text": SECRET})
    services.cancel(run.id)
    assert told.get_span("run").attributes["hitl.outcome"] == "cancelled"


@pytest.mark.parametrize("ratio", [0, 1])
def test_opentelemetry_sampler_includes_all_or_no_spans_of_a_run(
    hitl: GraphEnvironment, install: Install, ratio: int
) -> None:
    told = install(sampler=ParentBased(TraceIdRatioBased(ratio)))
    run = hitl.start("approval", {"text": "x"})
    hitl.decide(run=run, type="approve")
    assert len(told.list_spans()) == 9 * ratio


@pytest.mark.parametrize("make", [uuid4, lambda: UUID(int=uuid4().int >> 64)])
def test_opentelemetry_trace_ids_are_sampled_at_the_ratio_of_the_sampler(
    make: Callable[[], UUID],
) -> None:
    sampler = TraceIdRatioBased(0.25)
    ids = [make_ids(make())[0] for _ in range(4000)]
    taken = sum(sampler.should_sample(None, one, "run").decision.is_sampled() for one in ids)
    assert 800 < taken < 1200


def test_run_without_opentelemetry_tracer_provider_succeeds(
    hitl: GraphEnvironment, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = install()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    run = hitl.start("approval", {"text": "x"})
    hitl.decide(run=run, type="approve")
    assert hitl.get_run(run).state == "succeeded"
    assert told.list_spans() == []


def test_opentelemetry_trace_id_of_a_run_id_is_stable_across_releases() -> None:
    # Runs may wait for months. A trace that began under other ids would be split in two.
    assert make_ids(UUID(int=1)) == (0xE2DF85C386B7D43A8EE7A1673BE27D5F, 0x9C1AE24A10292788)
    assert format_trace_id(str(UUID(int=1))) == "e2df85c386b7d43a8ee7a1673be27d5f"


def set_up(apps: Sequence[str]) -> str:
    """Return the packages that a project with these apps has loaded, and its observers."""
    program = f"""
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from django.conf import settings
settings.INSTALLED_APPS += {list(apps)!r}
import django
django.setup()
import hitl_django.services
from hitl_django.worker import observers
print(*sorted({{"opentelemetry", "sentry_sdk"}} & set(sys.modules)))
print(*(one.__module__ for one in observers._observers))
"""
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.process
@pytest.mark.any_database
def test_project_without_tracing_apps_imports_no_opentelemetry_or_sentry() -> None:
    assert set_up([]).split() == []


@pytest.mark.process
@pytest.mark.any_database
def test_project_with_opentelemetry_and_sentry_apps_registers_one_observer_per_app() -> None:
    apps = ["hitl_django.contrib.opentelemetry", "hitl_django.contrib.sentry"]
    assert set_up(apps).split() == [
        "opentelemetry",
        "sentry_sdk",
        *(f"{app}.segments" for app in apps),
    ]
