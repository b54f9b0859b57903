"""State transitions of a run that a worker leaves: finish, release, park.

Each writes the state, the run's last event, publishes, and sends the signals.
"""

from __future__ import annotations

import traceback
from functools import partial
from typing import Any

from hitl_django import events, signals
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import InterruptChangedError, iterate_leaves
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.errors import LeaseLostError
from hitl_django.events import EventName
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.leases import queries as lease_queries
from hitl_django.models import Run
from hitl_django.task_queue import dispatcher

from . import interrupts, queries
from .lease import RunLease

ERROR_LENGTH = 10_000
TRACEBACK_LENGTH = 100_000

#: The event of each state that has one.
_EVENTS = {
    Run.State.SUCCEEDED: EventName.RUN_SUCCEEDED,
    Run.State.FAILED: EventName.RUN_FAILED,
    Run.State.PARKED: EventName.RUN_PARKED,
}

_END_STATES = {
    "finished": Run.State.SUCCEEDED,
    "failed": Run.State.FAILED,
    "out_of_steps": Run.State.FAILED,
}


def finish(lease: RunLease, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
    """Add the outcome of a run to its last commit."""
    using = batch.using
    if outcome.status == "interrupted" and lease.has_interrupts:
        # What was asked before may be answered by now: that shows when the thread is held.
        batch.before_commit(partial(_pause_behind_lock, lease, outcome, using, lease.log.last))
        return
    state = _state_after(outcome)
    detail: dict[str, Any] = {}
    if outcome.status == "interrupted":
        detail["interrupts"] = interrupts.create_interrupts(
            lease, batch, outcome.pending_interrupts
        )
        state = Run.State.INTERRUPTED
    elif state in _END_STATES.values() and lease.has_interrupts and _has_waiting(lease, using):
        batch.before_commit(partial(interrupts.withdraw_interrupts, lease, using))
    _leave(lease, state, batch, *describe_error(outcome.error), step=step, detail=detail)
    if state == Run.State.QUEUED:
        dispatcher.enqueue(lease.run_id, batch)
    batch.after_write(partial(_send_signals, lease, state, using))


def ends_run(outcome: Outcome) -> bool:
    """Return whether a run is over with this outcome."""
    return _state_after(outcome) in _END_STATES.values()


def _state_after(outcome: Outcome) -> str:
    """Return the state of a run after an outcome without interrupts."""
    if isinstance(outcome.error, InterruptChangedError):
        # The answer is to another question. Nothing is wrong with what is stored, and a version
        # of the graph that asks the same again can go on from it.
        return Run.State.PARKED
    return _END_STATES.get(outcome.status, Run.State.QUEUED)


def _has_waiting(lease: RunLease, using: str) -> bool:
    # Others only close questions, so what has none that waits won't have one when it is held.
    if lease.stored is not None:
        return lease.stored.has_waiting
    return bool(queries.WAITING.run(using, run=lease.run_id))


def _pause_behind_lock(lease: RunLease, outcome: Outcome, using: str, last_event: int) -> None:
    lease.log.last = last_event  # as it was before the database undid this and it was called again
    # A question that was answered while the run was still under way finds nobody waiting: its
    # run doesn't pause but goes round again, with the answer.
    answered, waiting = interrupts.sync_interrupts(lease, outcome.pending_interrupts, using)
    state = Run.State.QUEUED if answered else Run.State.INTERRUPTED
    batch = WriteBatch(using)
    detail = {} if answered else {"interrupts": waiting}
    _leave(lease, state, batch, *describe_error(None), detail=detail)
    if answered:
        dispatcher.enqueue(lease.run_id, batch)
    batch.run()


def park(lease: RunLease, error: str) -> None:
    """Park a run: everything stored stays, and an operator may queue the run again."""
    batch = WriteBatch(write_alias())
    # Zero rows: the lease has run out since it was claimed, and another worker parks the run.
    batch.guard(lease_queries.RELEASE_AFTER_PROGRESS, lease.thread.values())
    _leave(lease, Run.State.PARKED, batch, _shorten(error))
    batch.after_write(partial(_send_signals, lease, Run.State.PARKED, batch.using))
    batch.commit(durable=True)


def note_error(lease: RunLease, error: str) -> None:
    """Store why a run is about to be left; its lease stays, or is extended if it ran out.

    Raises:
        LeaseLostError: Another worker has the thread; nothing is written.
    """
    batch = WriteBatch(write_alias())
    lease.thread.fence(batch)
    batch.guard(queries.NOTE, {"run": lease.run_id, "error": _shorten(error)}, LeaseLostError)
    batch.commit(durable=True)


def release(
    lease: RunLease, error: BaseException, *, to_park: bool, described: str | None = None
) -> None:
    """Give the thread back after something that was not the graph's doing went wrong.

    The run stays QUEUED, for the sweep to enqueue again, or is parked where trying again can't
    help. Its attempts aren't set back: a fault that stays parks the run in the end. ``described``
    is the error in words, if they aren't its own.
    """
    batch = WriteBatch(write_alias())
    # What went wrong may have been a commit, and nobody knows what became of its events.
    lease.log.catch_up(batch.using)
    state = Run.State.PARKED if to_park else Run.State.QUEUED
    # Zero rows: another worker has taken over, and the run is its business now.
    lease.thread.guard(batch, lease_queries.RELEASE)
    line, full = describe_error(error)
    _leave(lease, state, batch, line if described is None else _shorten(described), full)
    batch.after_write(partial(_send_signals, lease, state, batch.using))
    batch.commit(durable=True)


def _leave(
    lease: RunLease,
    state: str,
    batch: WriteBatch,
    error: str,
    traceback: str | None = None,
    *,
    step: int | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    about = detail or ({"reason": "continued"} if state == Run.State.QUEUED else {})
    last_event = lease.log.append_state(batch, state, **about)
    statement = queries.PAUSE
    if state in _END_STATES.values():
        statement = queries.END
    elif state == Run.State.QUEUED:
        statement = queries.REQUEUE
    # Zero rows: the run isn't RUNNING although its thread is held. Only a change by hand can do
    # that; whoever made it wins, and nothing of this worker is stored. The thread is free at once
    # where this was one statement, and else when the lease has run out.
    how = {"state": str(state), "step": step, "error": error, "traceback": traceback}
    how["last_event"] = last_event
    batch.guard(statement, {"run": lease.run_id, **how}, LeaseLostError)
    if event := _EVENTS.get(Run.State(state)):
        ids = {"run_id": lease.run_id, "thread_id": lease.thread.thread_id}
        events.publish(batch, event, lease.graph, **ids)


def describe_error(error: BaseException | None) -> tuple[str, str]:
    """Return an error in a line and as a traceback, without the values of variables."""
    if error is None:
        return "", ""
    line = "; ".join(map(_name_error, iterate_leaves(error)))
    if isinstance(error, BaseExceptionGroup):
        line = f"{_name_error(error)}: {line}"
    full = "".join(traceback.format_exception(error))
    return _shorten(line), escape_unstorable(full)[-TRACEBACK_LENGTH:]


def _name_error(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own __str__ fails
        return type(error).__name__


def _shorten(line: str) -> str:
    return escape_unstorable(line)[:ERROR_LENGTH]


def _send_signals(lease: RunLease, state: str, using: str) -> None:
    ids = {
        "run_id": str(lease.run_id),
        "thread_id": lease.thread.thread_id,
        "graph": lease.graph,
    }
    if state == Run.State.SUCCEEDED:
        signals.send_on_commit(signals.run_succeeded, using=using, **ids)
    elif state in (Run.State.FAILED, Run.State.PARKED):
        signals.send_on_commit(signals.run_failed, using=using, state=str(state), **ids)
