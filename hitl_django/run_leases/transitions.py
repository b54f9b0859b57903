"""State transitions of a run when its worker finishes, releases or parks the run.

Each transition stores the state and the run's last event, publishes events and sends signals.
"""

from __future__ import annotations

import traceback
from datetime import timedelta
from functools import partial
from typing import Any

from hitl_django import events, signals
from hitl_django.conf import hitl
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

#: Maps a state to the event that is published for the state.
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
    """Add the outcome of a run and the resulting run state to the run's last commit.

    ``step`` is the super-step of the last checkpoint.
    """
    using = batch.using
    if outcome.status == "interrupted" and lease.has_interrupts:
        # Earlier interrupts may have been decided in the meantime, which can only be checked with
        # the lock.
        batch.before_commit(partial(_pause_with_lock, lease, outcome, using, lease.log.last))
        return
    state = _state_after(outcome)
    detail: dict[str, Any] = {}
    if outcome.status == "interrupted":
        detail["interrupts"] = interrupts.create_interrupts(
            lease, batch, outcome.pending_interrupts
        )
        state = Run.State.INTERRUPTED
    elif state in _END_STATES.values() and lease.has_interrupts and _has_waiting(lease, using):
        batch.before_commit(partial(interrupts.supersede_interrupts, lease, using))
    _leave(lease, state, batch, *describe_error(outcome.error), step=step, detail=detail)
    if state == Run.State.QUEUED:
        dispatcher.enqueue(lease.run_id, batch)
    batch.after_write(partial(_send_signals, lease, state, using))


def ends_run(outcome: Outcome) -> bool:
    return _state_after(outcome) in _END_STATES.values()


def _state_after(outcome: Outcome) -> str:
    if isinstance(outcome.error, InterruptChangedError):
        # The response belongs to another interrupt. The stored state is intact, and a graph version
        # with the original interrupt can continue from it.
        return Run.State.PARKED
    return _END_STATES.get(outcome.status, Run.State.QUEUED)


def _has_waiting(lease: RunLease, using: str) -> bool:
    # Other processes only close interrupts. If no interrupt is pending now, none will be pending
    # later.
    if lease.stored is not None:
        return lease.stored.has_waiting
    return bool(queries.WAITING.run(using, run=lease.run_id))


def _pause_with_lock(lease: RunLease, outcome: Outcome, using: str, last_event: int) -> None:
    # The number is reset, because this function runs again after a database conflict.
    lease.log.last = last_event
    # An interrupt may have been decided while the run was still running. The run is then queued
    # with the response instead of being paused.
    answered, waiting = interrupts.sync_interrupts(lease, outcome.pending_interrupts, using)
    state = Run.State.QUEUED if answered else Run.State.INTERRUPTED
    batch = WriteBatch(using)
    detail = {} if answered else {"interrupts": waiting}
    _leave(lease, state, batch, *describe_error(None), detail=detail)
    if answered:
        dispatcher.enqueue(lease.run_id, batch)
    batch.run()


def park(lease: RunLease, error: str) -> None:
    """Park a run with this error.

    The stored state of the run remains, and an operator can retry the run.
    """
    batch = WriteBatch(write_alias())
    # Zero rows: the lease has expired, and another worker will park the run.
    batch.guard(lease_queries.RELEASE_AFTER_PROGRESS, lease.thread.values())
    _leave(lease, Run.State.PARKED, batch, _shorten(error))
    batch.after_write(partial(_send_signals, lease, Run.State.PARKED, batch.using))
    batch.commit(durable=True)


def note_error(lease: RunLease, error: str) -> None:
    """Store an error in a run's row before the worker releases the run.

    An expired lease is extended.

    Raises:
        LeaseLostError: another worker has the lease. Nothing is written.
    """
    batch = WriteBatch(write_alias())
    lease.thread.fence(batch)
    batch.guard(queries.NOTE, {"run": lease.run_id, "error": _shorten(error)}, LeaseLostError)
    batch.commit(durable=True)


def release(
    lease: RunLease, error: BaseException, *, to_park: bool, described: str | None = None
) -> None:
    """Release the lease after an error that the graph's own code didn't cause.

    The run is queued, and is due again after SWEEP_SECONDS. With ``to_park``, the run is parked
    instead. The count of attempts isn't reset, so a permanent error finally parks the run.
    ``described`` replaces the message of the error.
    """
    batch = WriteBatch(write_alias())
    # The error may have occurred in a commit, so it is unknown which events are stored.
    lease.log.catch_up(batch.using)
    state = Run.State.PARKED if to_park else Run.State.QUEUED
    # Zero rows: another worker has the lease, and will release the run.
    lease.thread.guard(batch, lease_queries.RELEASE)
    line, full = describe_error(error)
    line = line if described is None else _shorten(described)
    _leave(lease, state, batch, line, full, delay=timedelta(seconds=hitl.SWEEP_SECONDS))
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
    delay: timedelta | None = None,
) -> None:
    about = detail or ({"reason": "continued"} if state == Run.State.QUEUED else {})
    last_event = lease.log.append_state(batch, state, **about)
    statement = queries.PAUSE
    if state in _END_STATES.values():
        statement = queries.END
    elif state == Run.State.QUEUED:
        statement = queries.RETRY if delay else queries.REQUEUE
    # Zero rows: the run isn't RUNNING although this worker has the lease. This is only possible
    # after a manual change, which takes precedence: the transaction is rolled back. If the
    # transaction is a single statement, the lease is released immediately. Otherwise, it expires.
    how: dict[str, Any] = {
        "state": str(state),
        "step": step,
        "error": error,
        "traceback": traceback,
    }
    how |= {"last_event": last_event, "delay": delay}
    batch.guard(statement, {"run": lease.run_id, **how}, LeaseLostError)
    if event := _EVENTS.get(Run.State(state)):
        ids = {"run_id": lease.run_id, "thread_id": lease.thread.thread_id}
        events.publish(batch, event, lease.graph, **ids)


def describe_error(error: BaseException | None) -> tuple[str, str]:
    """Return an error as one line and as a traceback.

    The traceback shows no values of variables.
    """
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
    except Exception:  # The error's __str__ raises an error.
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
