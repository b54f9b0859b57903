"""Observers of what workers do: packages in contrib that trace it, or name it where it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from hitl_django.engine.task.context import TaskContext
from hitl_django.run_leases import RunLease


class RunSegment(Protocol):
    """What an observer keeps of a worker's stretch: from the claim of a run to where it is left."""

    def around_task(self, context: TaskContext) -> AbstractContextManager[object]:
        """Return what a task is run within, all of its attempts; on the thread that runs it."""

    def note_outcome(self, status: str, error: BaseException | None) -> None:
        """Hear how the run was left; not called where the process is ending."""


#: Begins to observe a stretch; what it yields hears of it.
Observer = Callable[[RunLease], AbstractContextManager[RunSegment]]
AroundTask = Callable[[TaskContext], AbstractContextManager[object]]

_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Has each stretch of this process run within what the observer returns for its lease.

    It has to raise nothing: that wouldn't be the run's doing, and would hold it up all the same.
    """
    if observer not in _observers:
        _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Has the observer hear of no further stretch."""
    _observers.remove(observer)


@contextmanager
def observe_segment(lease: RunLease) -> Iterator[Sequence[RunSegment]]:
    """Has all observers watch a stretch while it lasts."""
    with ExitStack() as stack:
        yield [stack.enter_context(observer(lease)) for observer in _observers]


def combine_around(stretches: Sequence[RunSegment]) -> AroundTask | None:
    """Return what tasks are run within; None where nobody observes them, which costs nothing."""
    if not stretches:
        return None

    @contextmanager
    def around_task(context: TaskContext) -> Iterator[None]:
        with ExitStack() as stack:
            for stretch in stretches:
                stack.enter_context(stretch.around_task(context))
            yield

    return around_task if len(stretches) > 1 else stretches[0].around_task
