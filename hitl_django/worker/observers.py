"""Observers of workers, with which optional apps trace runs and report errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from hitl_django.engine.task.context import TaskContext
from hitl_django.run_leases import RunLease


class RunSegment(Protocol):
    """An object with which an observer follows one segment of a run.

    A segment begins when a worker takes the lease for the run, and ends when the worker releases
    the lease.
    """

    def around_task(self, context: TaskContext) -> AbstractContextManager[object]:
        """Return a context manager in which all attempts of a task run, on the task's OS thread."""

    def note_outcome(self, status: str, error: BaseException | None) -> None:
        """Handle the end of the segment. The method isn't called if the process is ending.

        ``status`` is the outcome of the run. ``error`` is the error that stopped the run, or None.
        """


#: Returns a context manager for a segment, which yields a RunSegment.
Observer = Callable[[RunLease], AbstractContextManager[RunSegment]]
AroundTask = Callable[[TaskContext], AbstractContextManager[object]]

_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Register an observer, a function that is called for each segment of a run in this process.

    The observer must not raise errors, because an error would stop the run.
    """
    if observer not in _observers:
        _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Remove an observer, so that it isn't called for new segments."""
    _observers.remove(observer)


@contextmanager
def observe_segment(lease: RunLease) -> Iterator[Sequence[RunSegment]]:
    """Call all observers for a segment that lasts until the end of the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(observer(lease)) for observer in _observers]


def combine_around(segments: Sequence[RunSegment]) -> AroundTask | None:
    """Return a function that combines ``around_task`` of all segments, or None without segments."""
    if not segments:
        return None

    @contextmanager
    def around_task(context: TaskContext) -> Iterator[None]:
        with ExitStack() as stack:
            for segment in segments:
                stack.enter_context(segment.around_task(context))
            yield

    return around_task if len(segments) > 1 else segments[0].around_task
