"""The ids of a run's trace: made of the run's id, so that no process has to tell another."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer

NAME = "hitl_django"


def make_ids(run_id: UUID | str) -> tuple[int, int]:
    """Return the ids of a run's trace and of the run's own span.

    Not the bits of the run's id themselves: samplers go by the last 64 of a trace's and take them
    to be random, which those of a UUID aren't.
    """
    made = blake2b(UUID(str(run_id)).bytes, digest_size=24, person=b"hitl_django").digest()
    return int.from_bytes(made[:16]), int.from_bytes(made[16:])


def format_trace_id(run_id: UUID | str) -> str:
    """Return the id of a run's trace as tracing systems show it, for a link to it."""
    return trace.format_trace_id(make_ids(run_id)[0])


def get_tracer() -> Tracer:
    """Return the tracer of the project's provider."""
    return trace.get_tracer(NAME)


def open_context(run_id: UUID | str, tracer: Tracer) -> Context:
    """Return the context in which spans of a run are begun: that of the run's own span.

    That span is only told of when the run has ended, so whether the trace is sampled is asked here:
    a sampler that goes by the trace's id says the same in each process.
    """
    trace_id, span_id = make_ids(run_id)
    sampler: Any = getattr(tracer, "sampler", None)  # the SDK has one, the API alone doesn't
    sampled = sampler is None or sampler.should_sample(None, trace_id, "run").decision.is_sampled()
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    run = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(run), Context())


def get_run_tracer(run_id: UUID | str) -> Tracer:
    """Return a tracer whose first span without a parent is the run's own.

    A provider that can't be told ids gives it another one, in a trace of its own.
    """
    tracer = get_tracer()
    if hasattr(tracer, "id_generator"):
        tracer.id_generator = _RunIds(run_id)
    return tracer


class _RunIds:
    """What the SDK asks for the ids of a span."""

    def __init__(self, run_id: UUID | str) -> None:
        self._trace_id, self._span_id = make_ids(run_id)

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        return self._span_id

    def is_trace_id_random(self) -> bool:
        return True
