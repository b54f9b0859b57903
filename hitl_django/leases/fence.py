"""The fence of a run: binds each commit of its worker to the epoch of the claim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hitl_django.checkpoints import lease_queries
from hitl_django.db.write_batch import Row, WriteBatch
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.errors import LeaseLostError

from . import interrupts, queries, transitions, waiting_runs
from .lease import Lease, lease_duration


class RunFence:
    """Binds a worker's commits to its epoch; the last of them ends, pauses or requeues the run."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease

    def hold(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        """Requires that the thread is held; renews the lease, or ends it with an outcome."""
        # The epoch predicate is what keeps a worker that was frozen, cut off or slow from writing
        # after another has taken over. Zero rows: one has, and all that this worker knows is stale.
        # A commit is progress, so the count of attempts starts anew; where it stands at this claim
        # alone, the row is locked and not written.
        key = self.lease.fence_values()
        if outcome is None and self.lease.attempt == 1:
            batch.lock(lease_queries.CHECK, key, LeaseLostError)
        elif outcome is None:
            batch.guard(lease_queries.HOLD, {**key, "duration": lease_duration()}, LeaseLostError)
            if self.lease.last_error:
                # It would be taken for the reason of a later end of a worker.
                batch.guard(queries.NOTE, {"run": self.lease.run_id, "error": ""}, LeaseLostError)
        else:
            statement, receive = lease_queries.LET_GO, None
            if outcome.questions:
                statement = queries.ASK
            elif transitions.ends_run(outcome):
                statement, receive = queries.REST, partial(self._enqueue_next, batch.using)
            batch.guard(statement, key, LeaseLostError, receive)

    def _enqueue_next(self, using: str, rested: Row) -> None:
        (has_waiting,) = rested
        if has_waiting:
            batch = WriteBatch(using)
            waiting_runs.enqueue_next(batch, self.lease.thread.pk)
            batch.commit()

    def flag_changed(self, batch: WriteBatch, questions: Sequence[str]) -> None:
        """Marks interrupts that were answered and have since been raised with other words."""
        batch.before_commit(
            partial(interrupts.flag_changed_interrupts, self.lease, questions, batch.using)
        )

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        """Adds the outcome of the run to its last commit."""
        transitions.finish(self.lease, batch, outcome, step)
