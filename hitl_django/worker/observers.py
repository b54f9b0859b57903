"""Observers of workers, used by optional apps for tracing and error reporting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from hitl_django.engine.task.context import TaskContext
from hitl_django.run_leases import RunLease


class RunSegment(Protocol):
    """Data of an observer for one segment of a run, from claim to release."""

    def around_task(self, context: TaskContext) -> AbstractContextManager[object]:
        """Return a context manager for all attempts of a task, entered on the task's OS thread."""

    def note_outcome(self, status: str, error: BaseException | None) -> None:
        """Handle the end of the segment; not called if the process is ending."""


#: Returns a context manager for a segment, which yields a RunSegment.
Observer = Callable[[RunLease], AbstractContextManager[RunSegment]]
AroundTask = Callable[[TaskContext], AbstractContextManager[object]]

_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Register an observer, which is called for each segment in this process.

    The observer must not raise errors, because an error would stop the run.
    """
    if observer not in _observers:
        _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Remove an observer, which isn't called for new segments."""
    _observers.remove(observer)


@contextmanager
def observe_segment(lease: RunLease) -> Iterator[Sequence[RunSegment]]:
    """Call all observers for a segment during the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(observer(lease)) for observer in _observers]


def combine_around(segments: Sequence[RunSegment]) -> AroundTask | None:
    """Return a context manager for tasks, or None if there are no observers."""
    if not segments:
        return None

    @contextmanager
    def around_task(context: TaskContext) -> Iterator[None]:
        with ExitStack() as stack:
            for segment in segments:
                stack.enter_context(segment.around_task(context))
            yield

    return around_task if len(segments) > 1 else segments[0].around_task
