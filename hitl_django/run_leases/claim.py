"""Start of a run by a worker, which takes the lease on the thread of the run."""

from __future__ import annotations

import logging
import random
from uuid import UUID

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.json_text.sanitize import format_count
from hitl_django.leases.lease_owner import name_owner
from hitl_django.leases.thread_lease import ThreadLease, lease_duration
from hitl_django.run_events import EventLog
from hitl_django.task_queue.due_runs import find_due

from . import queries, transitions
from .lease import RunLease, StoredRun

logger = logging.getLogger("hitl_django")

#: The number of runs that a worker tries to claim, while other workers claim the same runs.
TRIES = 10


def claim(run_id: UUID, *, durable: bool = True) -> RunLease | None:
    """Take the lease on the run's thread for this worker, and set the run to running.

    Return None if the run isn't due or if another worker has the lease. A repeated message for a
    run therefore has no effect. Also return None if too many attempts have made no progress: the
    run is then parked, i.e. stopped until an operator acts. With ``durable=False``, the lease is
    taken in the caller's transaction.
    """
    using = write_alias()
    claiming = WriteBatch(using)
    # If the lease is free or has expired on the database's clock, the UPDATE lets exactly one of
    # several workers take it. The UPDATE also counts the attempt, so that a worker that dies can't
    # skip the count. Any progress resets the count. Zero rows: the run isn't due, or another worker
    # has the lease.
    owner = name_owner()
    claiming.guard(queries.CLAIM, {"run": run_id, "owner": owner, "duration": lease_duration()})
    # Zero rows: the run was cancelled while this statement waited for the thread's row.
    claiming.guard(queries.BEGIN, {"run": run_id})
    # The checkpoint is read in the same transaction, in which no other process can change it.
    read = claiming.prefetch(queries.STORED, {"run": run_id, "owner": owner, "ns": ""})
    held = claiming.commit(durable=durable)
    if not held:
        return None
    claimed = queries.ClaimedThread._make(held[0])
    thread = ThreadLease(claimed.id, claimed.thread_id, claimed.epoch, using=using)
    if len(held) == 1:
        # This worker has the lease, so the run can't become due again.
        queries.GIVE_BACK.run(using, **thread.values())
        return None
    begun = queries.ClaimedRun.read(held[1])
    log = EventLog(run_id, begun.graph, begun.events, begun.last_event, claimed.epoch)
    stored = None
    if claimed.attempts > 1:
        # The previous worker may have committed a super-step while this transaction waited for the
        # row. A super-step doesn't change the row, so under REPEATABLE READ the rows read here may
        # be outdated.
        log.catch_up(using)
    elif read.rows is not None:
        stored = StoredRun(read.rows)
    lease = RunLease(
        run_id=log.run_id,
        graph=begun.graph,
        thread=thread,
        attempt=claimed.attempts,
        log=log,
        has_interrupts=bool(claimed.has_interrupts),
        graph_version=begun.graph_version,
        fingerprint=begun.fingerprint,
        stored=stored,
        names=tuple(filter(None, (begun.key, claimed.subject_id))),
        options=begun.options or {},
        last_error=begun.error,
    )
    if lease.attempt > hitl.MAX_ATTEMPTS:
        transitions.park(lease, _describe_no_progress(begun.error))
        return None
    logger.info(
        "run %s claimed: epoch %s, attempt %s",
        run_id,
        thread.epoch,
        lease.attempt,
        extra=lease.log_fields(),
    )
    return lease


def claim_next(graph: str) -> RunLease | None:
    """Choose a due run, take its lease, and return the lease.

    The graphs take turns in the order of their names. ``graph`` is the graph of the previous run,
    or an empty string. The chosen run belongs to the next graph that has due runs. If
    another worker has already taken the lease of the chosen run, choose again. Return None if no
    run is due, or after TRIES chosen runs.
    """
    for _ in range(TRIES):
        found = find_due(graph)
        if not found:
            break
        lease = claim(random.choice(found).id)
        if lease is not None:
            return lease
    return None


def _describe_no_progress(last_error: str) -> str:
    times = format_count(hitl.MAX_ATTEMPTS, "time", "times")
    if last_error:
        return f"{last_error}. The run was claimed {times} without progress."
    return (
        f"The run was claimed {times} without progress, and its worker died each time "
        "before it could report an error."
    )
