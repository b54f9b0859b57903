"""Whether a run stops between two super-steps: at its end, a breakpoint, its limit, or if asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import ids
from ..constants import NULL_TASK_ID
from ..errors import GraphRecursionError
from ..savers.checkpoint import Outcome, Question
from ..task.callbacks import GraphInterruptEvent
from ..task.runtime import RunControl
from ..types import Interrupt
from .plan import Task, breakpoint_hits

if TYPE_CHECKING:
    from .loop import Loop


def outcome_between(loop: Loop, ran: Sequence[Task]) -> Outcome | None:
    """Returns how the run ends before the planned tasks; None where it goes on with them.

    ``ran`` are the tasks of the step before.
    """
    job, step = loop.job, loop.origin.step
    if job.after and (hits := breakpoint_hits(loop.state, job.after, ran)):
        loop.stopped_after = True
        return _breakpoint(loop, hits)
    if step > loop.origin.stop:
        return _out_of_steps(loop)
    if not loop.tasks:
        return Outcome("finished")
    if job.before and (hits := breakpoint_hits(loop.state, job.before, loop.tasks)):
        return _breakpoint(loop, hits)
    if loop.run.control is not None and _drains(loop, loop.run.control):
        return Outcome("drained", next=loop.due())
    return None


def _out_of_steps(loop: Loop) -> Outcome:
    limit, due = loop.job.recursion_limit, loop.due()
    error = GraphRecursionError(
        f"Recursion limit of {limit} reached without hitting a stop condition. Raise it with the "
        "`recursion_limit` config key, or give the graph a way to END.",
        limit=limit,
        next=due,
    )
    return Outcome("out_of_steps", next=due, error=error)


def _drains(loop: Loop, control: RunControl) -> bool:
    """Tells whether the run stops at this edge because somebody asked.

    An answer that came with the call is stored with the step that uses it, and nowhere before.
    """
    return control.drain_requested and not loop.run.answers


def _breakpoint(loop: Loop, hits: Sequence[Task]) -> Outcome:
    names = tuple(task.name for task in hits)
    question = Question(
        interrupt=Interrupt(
            {"title": f"Go on past the breakpoint at {', '.join(names)}?"},
            ids.interrupt_id(f"{loop.job.ns}@{loop.origin.checkpoint_id}", 0),
        ),
        node=names[0],
        task_id=NULL_TASK_ID,
        task_path="",
        checkpoint_ns=loop.job.ns,
        checkpoint_id=loop.origin.checkpoint_id,
        kind="breakpoint",
    )
    return Outcome("interrupted", (question,), loop.due())


def pause_event(loop: Loop, outcome: Outcome) -> GraphInterruptEvent:
    """Returns what the caller's handlers are told of a run that waits for people."""
    asked = tuple(q.interrupt for q in outcome.questions if q.kind == "interrupt")
    stopped = "interrupt_after" if loop.stopped_after else "interrupt_before"
    return GraphInterruptEvent(
        run_id=loop.run.config.get("run_id"),
        status="pending" if asked else stopped,
        checkpoint_id=loop.origin.checkpoint_id,
        checkpoint_ns=loop.ns,
        interrupts=asked,
    )
