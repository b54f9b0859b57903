"""Requeueing of runs whose worker process ended without releasing its lease."""

from __future__ import annotations

import logging
from uuid import UUID

from django.db import transaction

from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.leases.lease_owner import find_system, has_ended
from hitl_django.models import Run, Thread
from hitl_django.models.functions import Now
from hitl_django.task_queue import dispatcher

logger = logging.getLogger("hitl_django")


def release_ended_workers() -> list[UUID]:
    """Queue each run whose worker process on this system has ended. Return the ids of these runs.

    Only processes of the same host, boot and container are checked. The leases of other ended
    processes expire. The runs' counts of attempts aren't reset, so a run that kills its workers is
    finally parked.
    """
    system = find_system()
    if system is None:
        return []
    running = Run.objects.using(write_alias()).filter(
        state=Run.State.RUNNING, thread__lease_owner__contains=f"@{system}:"
    )
    columns = ("pk", "thread_id", "thread__epoch", "thread__lease_owner")
    return [
        run
        for run, thread, epoch, owner in running.order_by().values_list(*columns)
        if has_ended(owner) and _release(run, thread, epoch)
    ]


@retry_on_conflict
def _release(run: UUID, thread: int, epoch: int) -> bool:
    using = write_alias()
    leased = Thread.objects.using(using).filter(pk=thread, epoch=epoch, lease_until__isnull=False)
    with transaction.atomic(using=using):
        # Zero rows: the worker's last commit has released the lease, or another process has
        # released or taken it.
        if not leased.update(lease_until=None, lease_owner=""):
            return False
        # Zero rows: the run was cancelled in the meantime. The message then has no effect.
        running = Run.objects.using(using).filter(pk=run, state=Run.State.RUNNING)
        running.update(state=Run.State.QUEUED, queued_at=Now(), last_message_at=Now())
        batch = WriteBatch(using)
        dispatcher.enqueue(run, batch)
        batch.run()
    logger.warning("run %s requeued: its worker has ended", run, extra={"run_id": str(run)})
    return True
