"""The decision, made between two super-steps, whether a run stops."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ids
from ..constants import NULL_TASK_ID
from ..errors import GraphRecursionError
from ..savers.checkpoint import Outcome, PendingInterrupt
from ..task.callbacks import GraphInterruptEvent, GraphLifecycleStatus
from ..task.runtime import RunControl
from ..task.task import Task
from ..types import Interrupt
from .plan import find_breakpoints
from .state import LoopState


def find_outcome(state: LoopState, ran: Sequence[Task]) -> Outcome | None:
    """Return the outcome of a run that stops before its next tasks, or None if the run continues.

    ``ran`` are the tasks of the previous super-step.
    """
    job, step = state.job, state.origin.step
    if job.after and (hits := find_breakpoints(state.channel_state, job.after, ran)):
        state.stopped_after = True
        return _breakpoint(state, hits)
    if step > state.origin.stop:
        return _out_of_steps(state)
    if not state.tasks:
        return Outcome("finished")
    if job.before and (hits := find_breakpoints(state.channel_state, job.before, state.tasks)):
        return _breakpoint(state, hits)
    if state.run.control is not None and _is_draining(state, state.run.control):
        return Outcome("drained", next=state.list_unfinished_nodes())
    return None


def _out_of_steps(state: LoopState) -> Outcome:
    limit, due = state.job.recursion_limit, state.list_unfinished_nodes()
    error = GraphRecursionError(
        f"Recursion limit of {limit} reached without hitting a stop condition. Increase "
        "it with the `recursion_limit` config key, or add an edge to END.",
        limit=limit,
        next=due,
    )
    return Outcome("out_of_steps", next=due, error=error)


def _is_draining(state: LoopState, control: RunControl) -> bool:
    """Return whether a drain (a requested stop) ends the run before the next super-step.

    If the call has given resume values, the next super-step runs first, because the resume values
    are stored together with this super-step.
    """
    return control.drain_requested and not state.run.answers


def _breakpoint(state: LoopState, hits: Sequence[Task]) -> Outcome:
    names = tuple(task.name for task in hits)
    pending = PendingInterrupt(
        interrupt=Interrupt(
            {"title": f"Continue past the breakpoint at {', '.join(names)}?"},
            ids.make_interrupt_id(f"{state.job.ns}@{state.origin.checkpoint_id}", 0),
        ),
        node=names[0],
        task_id=NULL_TASK_ID,
        task_path="",
        checkpoint_ns=state.job.ns,
        checkpoint_id=state.origin.checkpoint_id,
        kind="breakpoint",
    )
    return Outcome("interrupted", (pending,), state.list_unfinished_nodes())


def build_pause_event(state: LoopState, outcome: Outcome) -> GraphInterruptEvent:
    """Return the event for the callback handlers of the caller when a run pauses."""
    interrupts = tuple(q.interrupt for q in outcome.pending_interrupts if q.kind == "interrupt")
    stopped: GraphLifecycleStatus = "interrupt_after" if state.stopped_after else "interrupt_before"
    return GraphInterruptEvent(
        run_id=state.run.config.get("run_id"),
        status="pending" if interrupts else stopped,
        checkpoint_id=state.origin.checkpoint_id,
        checkpoint_ns=state.ns,
        interrupts=interrupts,
    )
