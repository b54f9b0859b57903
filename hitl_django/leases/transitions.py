"""How a run is left: its state, what it asks, and who is told."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.db import router

from hitl_django import signals
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import QuestionChangedError
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.errors import LeaseLostError
from hitl_django.json_text.sanitize import storable
from hitl_django.models import Delivery, Run
from hitl_django.notifications import outbox

from . import interrupts, queries
from .lease import Lease

ERROR_LENGTH = 10_000
TRACEBACK_LENGTH = 100_000

#: What others are told of how a run is left.
_TOLD = {
    Run.State.SUCCEEDED: Delivery.Event.RUN_SUCCEEDED,
    Run.State.FAILED: Delivery.Event.RUN_FAILED,
    Run.State.PARKED: Delivery.Event.RUN_PARKED,
}

_ENDED = {
    "finished": Run.State.SUCCEEDED,
    "failed": Run.State.FAILED,
    "out_of_steps": Run.State.FAILED,
}


def finish(
    lease: Lease,
    batch: WriteBatch,
    outcome: Outcome,
    step: int | None,
    requeue: Callable[[UUID], None],
) -> None:
    """Adds the outcome of a run to what is written while its thread is held."""
    using = batch.using
    if outcome.status == "interrupted" and lease.asked:
        # What was asked before may be answered by now: that shows when the thread is held.
        batch.before_commit(partial(_pause_again, lease, outcome, requeue, using, lease.log.last))
        return
    state = _left_as(outcome)
    told: dict[str, Any] = {}
    if outcome.status == "interrupted":
        told["questions"] = interrupts.ask(lease, batch, outcome.questions)
        state = Run.State.INTERRUPTED
    elif state in _ENDED.values() and lease.asked and _asks(lease, using):
        batch.before_commit(partial(interrupts.withdraw, lease, using))
    _leave(lease, state, batch, *_account(outcome.error), step=step, told=told)
    if state == Run.State.QUEUED:
        batch.before_commit(partial(requeue, lease.run_id))
    batch.after_write(partial(_announce, lease, state, using))


def ends(outcome: Outcome) -> bool:
    """Says whether a run is over with this outcome."""
    return _left_as(outcome) in _ENDED.values()


def _left_as(outcome: Outcome) -> str:
    """Returns the state in which a run is left that asks nothing."""
    if isinstance(outcome.error, QuestionChangedError):
        # The answer is to another question. Nothing is wrong with what is stored, and a version
        # of the graph that asks the same again can go on from it.
        return Run.State.PARKED
    return _ENDED.get(outcome.status, Run.State.QUEUED)


def _asks(lease: Lease, using: str) -> bool:
    # Others only close questions, so what has none that waits won't have one when it is held.
    known = lease.waiting.take() if lease.waiting else None
    return bool(queries.WAITING.run(using, run=lease.run_id) if known is None else known)


def _pause_again(
    lease: Lease, outcome: Outcome, requeue: Callable[[UUID], None], using: str, told_of: int
) -> None:
    lease.log.last = told_of  # as it was before the database undid this and it was called again
    # A question that was answered while the run was still under way finds nobody waiting: its
    # run doesn't pause but goes round again, with the answer.
    answered, waiting = interrupts.record(lease, outcome.questions, using)
    state = Run.State.QUEUED if answered else Run.State.INTERRUPTED
    batch = WriteBatch(using)
    told = {} if answered else {"questions": waiting}
    _leave(lease, state, batch, *_account(None), told=told)
    if answered:
        batch.before_commit(partial(requeue, lease.run_id))
    batch.run()


def park(lease: Lease, error: str) -> None:
    """Stops trying: everything stored stays, and an operator may queue the run again."""
    batch = WriteBatch(router.db_for_write(Run))
    # Zero rows: the lease has run out since it was claimed, and another worker parks the run.
    batch.guard(queries.LET_GO, lease.ours())
    _leave(lease, Run.State.PARKED, batch, storable(error)[:ERROR_LENGTH])
    batch.after_write(partial(_announce, lease, Run.State.PARKED, batch.using))
    batch.commit(durable=True)


def release(lease: Lease, error: BaseException, *, to_park: bool) -> None:
    """Gives the thread back after something that was not the graph's doing went wrong.

    The run stays QUEUED, for the sweep to hint again, or is parked where trying again can't help.
    Its attempts aren't set back: a fault that stays parks the run in the end.
    """
    batch = WriteBatch(router.db_for_write(Run))
    # What went wrong may have been a commit, and nobody knows what became of its events.
    lease.log.catch_up(batch.using)
    state = Run.State.PARKED if to_park else Run.State.QUEUED
    # Zero rows: another worker has taken over, and the run is its business now.
    batch.guard(queries.FREE, lease.ours(), LeaseLostError)
    _leave(lease, state, batch, *_account(error))
    batch.after_write(partial(_announce, lease, state, batch.using))
    batch.commit(durable=True)


def _leave(
    lease: Lease,
    state: str,
    batch: WriteBatch,
    error: str,
    traceback: str | None = None,
    *,
    step: int | None = None,
    told: dict[str, Any] | None = None,
) -> None:
    about = told or ({"reason": "continued"} if state == Run.State.QUEUED else {})
    last_event = lease.log.state(batch, state, **about)
    statement = queries.PAUSE
    if state in _ENDED.values():
        statement = queries.END
    elif state == Run.State.QUEUED:
        statement = queries.REQUEUE
    # Zero rows: the run isn't RUNNING although its thread is ours. Only a change by hand can do
    # that; whoever made it wins, and nothing of ours is stored. The thread is free at once where
    # this was one statement, and else when the lease has run out.
    how = {"state": str(state), "step": step, "error": error, "traceback": traceback}
    how["last_event"] = last_event
    batch.guard(statement, {"run": lease.run_id, **how}, LeaseLostError)
    if event := _TOLD.get(Run.State(state)):
        ids = {"run_id": lease.run_id, "thread_id": lease.thread.thread_id}
        outbox.publish(batch, event, lease.graph, **ids)


def _account(error: BaseException | None) -> tuple[str, str]:
    """Says what went wrong, in a line and in full; frames carry no values of variables."""
    if error is None:
        return "", ""
    try:
        line = f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own __str__ fails
        line = type(error).__name__
    full = "".join(traceback.format_exception(error))
    return storable(line)[:ERROR_LENGTH], storable(full)[-TRACEBACK_LENGTH:]


def _announce(lease: Lease, state: str, using: str) -> None:
    told = {
        "run_id": str(lease.run_id),
        "thread_id": lease.thread.thread_id,
        "graph": lease.graph,
    }
    if state == Run.State.SUCCEEDED:
        signals.send_on_commit(signals.run_succeeded, using=using, **told)
    elif state in (Run.State.FAILED, Run.State.PARKED):
        signals.send_on_commit(signals.run_failed, using=using, state=str(state), **told)
