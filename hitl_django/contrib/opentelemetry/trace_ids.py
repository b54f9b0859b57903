"""Ids of a run's trace, derived from the run's id."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer

NAME = "hitl_django"


def make_ids(run_id: UUID | str) -> tuple[int, int]:
    """Return the ids of a run's trace and of its root span.

    The ids are hashes, because samplers expect the last 64 bits of a trace id to be random. The
    last bits of a UUID are not random.
    """
    made = blake2b(UUID(str(run_id)).bytes, digest_size=24, person=b"hitl_django").digest()
    return int.from_bytes(made[:16]), int.from_bytes(made[16:])


def format_trace_id(run_id: UUID | str) -> str:
    """Return the id of a run's trace in the format that tracing systems show."""
    return trace.format_trace_id(make_ids(run_id)[0])


def get_tracer() -> Tracer:
    return trace.get_tracer(NAME)


def open_context(run_id: UUID | str, tracer: Tracer) -> Context:
    """Return the context for spans of a run, with the run's root span as parent.

    The root span is recorded when the run ends. The sampling decision is made here. Samplers that
    use the trace id make the same decision in each process.
    """
    trace_id, span_id = make_ids(run_id)
    sampler: Any = getattr(tracer, "sampler", None)  # Only the SDK has a sampler, the API has none.
    sampled = sampler is None or sampler.should_sample(None, trace_id, "run").decision.is_sampled()
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    run = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(run), Context())


def get_run_tracer(run_id: UUID | str) -> Tracer:
    """Return a tracer whose root span gets the ids of ``make_ids``.

    If the OpenTelemetry provider doesn't accept predetermined ids, the span gets random ids.
    """
    tracer = get_tracer()
    if hasattr(tracer, "id_generator"):
        tracer.id_generator = _RunIds(run_id)
    return tracer


class _RunIds:
    """Id generator of the OpenTelemetry SDK that returns the predetermined ids of a run."""

    def __init__(self, run_id: UUID | str) -> None:
        self._trace_id, self._span_id = make_ids(run_id)

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        return self._span_id

    def is_trace_id_random(self) -> bool:
        return True
