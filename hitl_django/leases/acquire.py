"""Claiming a thread, keeping it, and writing only while it is ours."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import router

from hitl_django.checkpoints import ThreadKey
from hitl_django.conf import hitl
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.errors import LeaseLostError
from hitl_django.json_text.sanitize import counted
from hitl_django.models import Run, Thread
from hitl_django.notifications import EventLog

from . import queries, transitions
from .interrupts import flag_changed
from .lease import Lease

logger = logging.getLogger("hitl_django")


def claim(run_id: UUID | str) -> Lease | None:
    """Takes the run's thread for this worker; None where there is nothing to do.

    That is where the run isn't due, where another worker has a live lease, which makes a repeated
    hint harmless, and where the run was parked instead, having got nowhere too often.
    """
    using = router.db_for_write(Run)
    claiming = WriteBatch(using)
    # The predicate makes one of any number of workers win: the lease is free or run out as the
    # database sees it at this statement. Attempts are counted here, where a worker that dies
    # can't fail to, and are set back by whatever makes progress. Zero rows: the run isn't due, or
    # the lease is somebody's.
    owner = _owner()
    terms = {"run": run_id, "owner": owner, "duration": _duration()}
    claiming.guard(queries.CLAIM, terms)
    # Zero rows: the run was cancelled while we waited for the thread's row.
    claiming.guard(queries.BEGIN, {"run": run_id})
    # What the run goes on from is read by the time that the thread is ours, and nobody else can
    # change it any more.
    newest = claiming.prefetch(queries.NEWEST, {"run": run_id, "owner": owner, "ns": ""})
    waiting = claiming.prefetch(queries.WAITING, {"run": run_id})
    held = claiming.commit(durable=True)
    if not held:
        return None
    thread_pk, thread_id, epoch, attempts, asked = held[0]
    thread = ThreadKey(thread_pk, thread_id, epoch)
    if len(held) == 1:
        # The thread's row is ours by now, so its run can't become due any more.
        queries.GIVE_BACK.run(using, thread=thread.pk, epoch=epoch)
        return None
    graph, last_error, shape, told, last_event = held[1]
    log = EventLog(UUID(str(run_id)), graph, told, last_event)
    if attempts > 1:
        log.catch_up(using)
    lease = Lease(log.run_id, graph, thread, attempts, log, bool(asked), shape, newest, waiting)
    if attempts > hitl.MAX_ATTEMPTS:
        transitions.park(lease, last_error or _nowhere())
        return None
    logger.info("run %s claimed: epoch %s, attempt %s", run_id, epoch, attempts)
    return lease


def _nowhere() -> str:
    times = counted(hitl.MAX_ATTEMPTS, "time", "times")
    return f"The run was taken up {times} and got nowhere; its worker never lived to say why."


def renew(lease: Lease) -> bool:
    """Extends the lease; False where the thread is no longer ours, or was given back."""
    # The epoch alone would let a heartbeat that comes just after the last commit lease a thread
    # to nobody: the run's answer would then have to wait for that lease to run out.
    return bool(queries.RENEW.run(_using(), **lease.ours(), duration=_duration()))


class RunFence:
    """A worker's commits: bound to its epoch, and the last of them settles the run.

    ``requeue`` is called with the id of a run that is left QUEUED, inside the transaction.
    """

    def __init__(self, lease: Lease, requeue: Callable[[UUID], None]) -> None:
        self.lease, self.requeue = lease, requeue

    def hold(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        """Renews the lease, or with an outcome gives it back, if the thread is still ours."""
        # The epoch predicate is what keeps a worker that was frozen, cut off or slow from writing
        # after another has taken over. Zero rows: one has, and all we know is stale. A commit is
        # progress, so the count of attempts starts anew.
        ours = self.lease.ours()
        if outcome is None:
            batch.guard(queries.HOLD, {**ours, "duration": _duration()}, LeaseLostError)
        else:
            statement = queries.REST if transitions.ends(outcome) else queries.LET_GO
            statement = queries.ASK if outcome.questions else statement
            batch.guard(statement, ours, LeaseLostError)

    def flag(self, batch: WriteBatch, questions: Sequence[str]) -> None:
        """Marks questions whose answers were used for others, in the transaction of the commit."""
        batch.before_commit(partial(flag_changed, self.lease, questions, batch.using))

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        """Adds how the run is left to the last thing that is written of it."""
        transitions.finish(self.lease, batch, outcome, step, self.requeue)


def _using() -> str:
    return router.db_for_write(Thread)


def _duration() -> timedelta:
    return timedelta(seconds=hitl.LEASE_SECONDS)


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"[:255]
