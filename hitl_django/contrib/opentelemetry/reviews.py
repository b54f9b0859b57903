"""Spans that may outlast a process: interrupts, decisions, and runs that have ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Status, StatusCode

from hitl_django import signals
from hitl_django.db.alias import write_alias
from hitl_django.models import Interrupt, Run
from hitl_django.services import DecisionInfo

from .attributes import (
    DECISION,
    DECISION_TYPE,
    GRAPH,
    INTERRUPT,
    NODE,
    OUTCOME,
    RUN,
    THREAD,
)
from .metrics import get_instruments
from .trace_ids import get_run_tracer, get_tracer, open_context


def connect() -> None:
    """Connect to the signals about interrupts and runs."""
    signals.interrupt_decided.connect(trace_decision, dispatch_uid="hitl_django.opentelemetry")
    signals.interrupt_expired.connect(trace_expiry, dispatch_uid="hitl_django.opentelemetry")
    signals.run_succeeded.connect(trace_run, dispatch_uid="hitl_django.opentelemetry")
    signals.run_failed.connect(trace_run, dispatch_uid="hitl_django.opentelemetry")
    signals.run_cancelled.connect(trace_run, dispatch_uid="hitl_django.opentelemetry")


def trace_decision(*, decision: DecisionInfo, **kwargs: Any) -> None:
    """Record a span from an interrupt's creation to its decision, and a span for the decision.

    The decision's span links to the span of the deciding code, for example of the HTTP request.
    """
    here = trace.get_current_span().get_span_context()
    asked = _read_interrupt(decision.interrupt_id)
    if asked is None:
        return
    interrupt = _trace_interrupt(asked, decision.created_at, "decided")
    ids = {**_name_interrupt(asked), DECISION: str(decision.id), DECISION_TYPE: decision.type}
    made = get_tracer().start_span(
        "decision",
        interrupt,
        attributes=ids,
        links=[Link(here)] if here.is_valid else [],
        start_time=_in_nanoseconds(decision.created_at),
    )
    made.end(_in_nanoseconds(max(decision.created_at, timezone.now())))
    waited = (decision.created_at - asked.created_at).total_seconds()
    figures = {GRAPH: asked.graph, DECISION_TYPE: decision.type}
    get_instruments().decision_wait.record(max(0.0, waited), figures)


def trace_expiry(*, interrupt_id: str, **kwargs: Any) -> None:
    """Record an interrupt's span from its creation to its expiry."""
    asked = _read_interrupt(interrupt_id)
    if asked is not None:
        _trace_interrupt(asked, timezone.now(), "expired")


def trace_run(*, run_id: str, thread_id: str, graph: str, **kwargs: Any) -> None:
    """Record the span of a run from its start to its end, and count the run."""
    outcome = kwargs.get("state", str(Run.State.SUCCEEDED))
    get_instruments().runs.add(1, {GRAPH: graph, OUTCOME: outcome})
    begun = Run.objects.using(write_alias()).filter(pk=run_id).values_list("created_at", flat=True)
    started_at = begun.first()
    if started_at is None or outcome == Run.State.PARKED:
        return  # A parked run can be retried, so it has not ended.
    span = get_run_tracer(run_id).start_span(
        "run",
        Context(),
        attributes={RUN: run_id, THREAD: thread_id, GRAPH: graph, OUTCOME: outcome},
        start_time=_in_nanoseconds(started_at),
    )
    if outcome == Run.State.FAILED:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _read_interrupt(interrupt_id: UUID | str) -> Interrupt | None:
    rows = Interrupt.objects.using(write_alias()).select_related("thread")
    columns = ("graph", "node", "run_id", "created_at", "thread__thread_id")
    return rows.only(*columns).filter(pk=interrupt_id).first()


def _trace_interrupt(asked: Interrupt, until: datetime, outcome: str) -> Context:
    """Record the span of a closed interrupt, and return the span's context."""
    tracer = get_tracer()
    span = tracer.start_span(
        "interrupt",
        open_context(asked.run_id, tracer),
        attributes={**_name_interrupt(asked), OUTCOME: outcome},
        start_time=_in_nanoseconds(asked.created_at),
    )
    span.end(_in_nanoseconds(max(asked.created_at, until)))
    return trace.set_span_in_context(span, Context())


def _name_interrupt(asked: Interrupt) -> dict[str, str]:
    return {
        INTERRUPT: str(asked.pk),
        RUN: str(asked.run_id),
        THREAD: asked.thread.thread_id,
        GRAPH: asked.graph,
        NODE: asked.node,
    }


def _in_nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
