"""Fencing of a worker's commits by the epoch of its lease.

Each lease on a thread has a higher epoch than the previous lease. A commit fails if another process
has taken the lease in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hitl_django.db.write_batch import Row, WriteBatch
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.errors import LeaseLostError
from hitl_django.leases import queries as lease_queries

from . import interrupts, queries, transitions, waiting_runs
from .lease import RunLease


class RunFence:
    """The check of a worker's lease in each commit of a run.

    If another process has taken the lease, the commit fails. The last commit of the worker also
    ends, pauses or requeues the run.
    """

    def __init__(self, lease: RunLease) -> None:
        self.lease = lease

    def guard(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        """Make the batch fail if the worker has lost its lease.

        If ``outcome`` is None, the run continues, and the lease stays. Otherwise, the batch also
        releases the lease.
        """
        # LeaseLostError: another worker has the lease, and this worker's state is outdated. A
        # commit is progress, so the count of attempts is reset. On the first attempt, the row is
        # locked without an update.
        lease, thread = self.lease, self.lease.thread
        if outcome is None and lease.attempt == 1:
            thread.fence(batch)
        elif outcome is None:
            thread.guard(batch, lease_queries.RENEW_AFTER_PROGRESS)
            if lease.last_error:
                # Otherwise, the old error would be reported as the reason if the worker dies later.
                batch.guard(queries.NOTE, {"run": lease.run_id, "error": ""}, LeaseLostError)
        elif outcome.pending_interrupts:
            thread.guard(batch, queries.ASK)
        elif transitions.ends_run(outcome):
            thread.guard(batch, queries.REST, partial(self._enqueue_next, batch.using))
        else:
            thread.guard(batch, lease_queries.RELEASE_AFTER_PROGRESS)

    def _enqueue_next(self, using: str, rested: Row) -> None:
        (has_waiting,) = rested
        if has_waiting:
            batch = WriteBatch(using)
            waiting_runs.enqueue_next(batch, self.lease.thread.pk)
            batch.commit()

    def flag_changed(self, batch: WriteBatch, interrupt_ids: Sequence[str]) -> None:
        """On commit of the batch, store that these interrupts have changed since their decision."""
        batch.before_commit(
            partial(interrupts.flag_changed_interrupts, self.lease, interrupt_ids, batch.using)
        )

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        """Add the new state of the run (ended, paused or queued) to the worker's last commit."""
        transitions.finish(self.lease, batch, outcome, step)
