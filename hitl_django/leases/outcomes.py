"""How a run is left: its state, what it asks, and who is told."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from uuid import UUID

from django.db import router, transaction

from hitl_django import signals
from hitl_django.engine.checkpoint import Outcome
from hitl_django.engine.errors import LeaseLostError
from hitl_django.models import Run, Thread
from hitl_django.text import storable

from . import questions, statements
from .lease import Lease

ERROR_LENGTH = 10_000
TRACEBACK_LENGTH = 100_000

_ENDED = {
    "finished": Run.State.SUCCEEDED,
    "failed": Run.State.FAILED,
    "out_of_steps": Run.State.FAILED,
}


def settle(lease: Lease, outcome: Outcome, requeue: Callable[[UUID], None]) -> None:
    """Stores the outcome of a run whose thread the caller's transaction holds."""
    using = router.db_for_write(Run)
    if outcome.status == "interrupted":
        # A question that was answered while the run was still under way finds nobody waiting:
        # its run doesn't pause but goes round again, with the answer.
        answered = questions.record(lease, outcome.questions, using)
        state = Run.State.QUEUED if answered else Run.State.INTERRUPTED
    else:
        state = _ENDED.get(outcome.status, Run.State.QUEUED)
    if outcome.status in _ENDED:
        statements.WITHDRAW.run(using, run=lease.run_id)

    _leave(lease, state, using, **_account(outcome.error))
    if state == Run.State.QUEUED:
        requeue(lease.run_id)
    _announce(lease, state, using)


def park(lease: Lease, error: str, *, using: str) -> None:
    """Stops trying: everything stored stays, and an operator may queue the run again."""
    _leave(lease, Run.State.PARKED, using, error=storable(error)[:ERROR_LENGTH])
    Thread.objects.using(using).filter(pk=lease.thread.pk).update(
        lease_owner="", lease_until=None, attempts=0
    )
    _announce(lease, Run.State.PARKED, using)


def abandon(lease: Lease, error: BaseException, *, to_park: bool) -> None:
    """Gives the thread back after something that was not the graph's doing went wrong.

    The run stays QUEUED, for the sweep to hint again, or is parked where trying again can't help.
    Its attempts aren't set back: a fault that stays parks the run in the end.
    """
    using = router.db_for_write(Run)
    with transaction.atomic(using=using, durable=True):
        # Zero rows: another worker has taken over, and the run is its business now.
        given_back = (
            Thread.objects.using(using)
            .filter(pk=lease.thread.pk, epoch=lease.thread.epoch)
            .update(lease_owner="", lease_until=None)
        )
        if not given_back:
            raise LeaseLostError
        state = Run.State.PARKED if to_park else Run.State.QUEUED
        _leave(lease, state, using, **_account(error))
        _announce(lease, state, using)


def _leave(
    lease: Lease, state: str, using: str, *, error: str, traceback: str | None = None
) -> None:
    statement = statements.PAUSE
    if state in _ENDED.values():
        statement = statements.END
    elif state == Run.State.QUEUED:
        statement = statements.REQUEUE
    # Zero rows: the run isn't RUNNING although its thread is ours. Only a change by hand can do
    # that; whoever made it wins, and nothing of this transaction stays.
    left = statement.run(
        using, run=lease.run_id, state=str(state), error=error, traceback=traceback
    )
    if not left:
        raise LeaseLostError


def _account(error: BaseException | None) -> dict[str, str]:
    """Says what went wrong, in a line and in full; frames carry no values of variables."""
    if error is None:
        return {"error": "", "traceback": ""}
    try:
        line = f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own __str__ fails
        line = type(error).__name__
    full = "".join(traceback.format_exception(error))
    return {
        "error": storable(line)[:ERROR_LENGTH],
        "traceback": storable(full)[-TRACEBACK_LENGTH:],
    }


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
