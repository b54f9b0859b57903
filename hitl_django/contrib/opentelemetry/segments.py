"""Spans of run segments, their super-steps and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from hitl_django.engine.constants import PUSH
from hitl_django.engine.errors import DrainSignal, ParentCommand
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.task import Task
from hitl_django.run_leases import RunLease

from .attributes import (
    ATTEMPT,
    ERROR_TYPE,
    GRAPH,
    NAMESPACE,
    NODE,
    OUTCOME,
    RUN,
    STEP,
    TASK,
    THREAD,
)
from .metrics import get_instruments
from .trace_ids import get_tracer, open_context


@contextmanager
def observe_segment(lease: RunLease) -> Iterator[TracedSegment]:
    """Record the span of a run segment as a part of the run's trace."""
    tracer = get_tracer()
    ids = {RUN: str(lease.run_id), THREAD: lease.thread.thread_id, GRAPH: lease.graph}
    span = tracer.start_span(
        "advance",
        open_context(lease.run_id, tracer),
        attributes={**ids, ATTEMPT: lease.attempt},
    )
    stretch = TracedSegment(span, ids)
    try:
        with _entered(trace.set_span_in_context(span)):
            yield stretch
    finally:
        stretch.end()


class TracedSegment:
    """The open spans of one run segment."""

    def __init__(self, span: Span, ids: dict[str, str]) -> None:
        self._span, self._ids, self._tracer = span, ids, get_tracer()
        self._lock = Lock()
        #: Number and span of the current super-step, by namespace.
        self._steps: dict[str, tuple[int, Span]] = {}

    @contextmanager
    def around_task(self, context: TaskContext) -> Iterator[None]:
        """Record the span of a task.

        Spans that are created within the task have the task's span as parent.
        """
        task, begun = context.task, perf_counter()
        parent = self._find_parent(task)
        names = {**self._ids, NODE: task.name, NAMESPACE: task.origin.ns, TASK: task.id}
        span = self._tracer.start_span(f"node {task.name}", parent, attributes=names)
        crash: BaseException | None = None
        try:
            with _entered(trace.set_span_in_context(span, parent)):
                yield
        except BaseException as error:
            crash = error
            raise
        finally:
            outcome, error_of_task = _describe_end(task, crash)
            span.set_attributes({OUTCOME: outcome, ATTEMPT: context.attempt})
            _set_error(span, error_of_task)
            span.end()
            self._end_steps_below(task)
            figures: dict[str, AttributeValue] = {
                GRAPH: self._ids[GRAPH],
                NODE: task.name,
                OUTCOME: outcome,
            }
            get_instruments().node_duration.record(perf_counter() - begun, figures)

    def note_outcome(self, status: str, error: BaseException | None) -> None:
        self._span.set_attribute(OUTCOME, status)
        _set_error(self._span, error)

    def end(self) -> None:
        """End all open spans."""
        for _, step in self._steps.values():
            step.end()
        self._steps.clear()
        self._span.end()

    def _find_parent(self, task: Task) -> Context:
        """Return the tracing context of a task's super-step.

        For a @task function, return the context of the calling task. The span of a super-step
        begins with the first task, and ends when the next super-step begins or the graph ends. The
        span therefore includes the time for storing the super-step.
        """
        here = contexts.get_current()
        if task.node.triggers == (PUSH,):
            return here  # A @task function belongs to the task that calls it.
        ns, step = task.origin.ns, task.origin.step
        with self._lock:
            number, span = self._steps.get(ns, (None, None))
            if span is None or number != step:
                if span is not None:
                    span.end()
                about: dict[str, AttributeValue] = {**self._ids, NAMESPACE: ns, STEP: step}
                span = self._tracer.start_span("super-step", here, attributes=about)
                self._steps[ns] = step, span
        return trace.set_span_in_context(span, here)

    def _end_steps_below(self, task: Task) -> None:
        """End the open super-step spans of the subgraphs that a task has called."""
        with self._lock:
            if len(self._steps) > 1:
                below = [ns for ns in self._steps if ns.startswith(task.ns)]
                for ns in below:
                    self._steps.pop(ns)[1].end()


def _describe_end(task: Task, crash: BaseException | None) -> tuple[str, BaseException | None]:
    """Return the outcome of a task as a word, and the task's error or None.

    ``crash`` is an exception that was raised outside the task's own error handling, or None.
    """
    if crash is not None:
        return "crashed", crash
    if task.pending_interrupts:
        return "asked", None
    if isinstance(task.error, DrainSignal):
        return "drained", None
    if task.error is None or isinstance(task.error, ParentCommand):
        return "finished", None
    return "failed", task.error


def _set_error(span: Span, error: BaseException | None) -> None:
    """Mark a span as failed.

    Only the error's class is recorded, because the message may quote contents.
    """
    if error is not None:
        span.set_attribute(ERROR_TYPE, type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _entered(context: Context) -> Iterator[None]:
    token = contexts.attach(context)
    try:
        yield
    finally:
        contexts.detach(token)
