"""The super-step loop: it plans and runs tasks, applies their writes and stores the result.

The loop does no I/O: a generator yields effects and receives their results. The loop uses no saver,
OS thread or event loop, so the sync driver and the async driver run the same code. A run can be
stopped between any two effects without losing stored data.
"""

from __future__ import annotations

from ..task.task import Task
from ..task.task_runner import pass_input_on
from .chunks import emit_writes
from .commit import commit_step
from .effects import AWAIT, CallStorage, Effects, Notify, RunTasks
from .start import open_run
from .state import LoopState
from .step import build_context, end_step, run_step, settle_task
from .stop import build_pause_event


def run_loop(state: LoopState) -> Effects:
    """Run a graph until it ends or pauses, and yield the effects for the driver."""
    yield from open_run(state)
    if state.job.kind == "submit":
        return
    lease = state.run.lease
    if lease is not None and not lease.in_force and state.outcome is None:
        yield CallStorage(lease.enforce)
    while state.outcome is None:
        task = _get_lone_task(state)
        if task is None:
            yield from run_step(state)
            continue
        # Most steps have a single task, which needs no waiting, no cancelling and no partial
        # commits.
        if not pass_input_on(task) and not (yield RunTasks([build_context(state, task)])):
            yield AWAIT
        if chunks := settle_task(state, task):
            yield from emit_writes(state, task, chunks)
        yield from end_step(state) if task.writes is None else commit_step(state)
    if state.run.callbacks and state.outcome.status == "interrupted" and not state.job.nested:
        yield Notify(build_pause_event(state, state.outcome))


def _get_lone_task(state: LoopState) -> Task | None:
    """Return the super-step's only task, or None if the super-step needs the general procedure.

    The general procedure is needed for several tasks, for a task that has already ended, and in
    graphs with error handlers or a cache.
    """
    tasks = state.tasks
    if len(tasks) != 1 or state.careful:
        return None
    task = tasks[0]
    if task.writes is not None or task.pending_interrupts or task.error is not None:
        return None
    state.ran = tasks
    return task
