"""Archiving of ended threads, by ``ARCHIVE_DAYS`` and ``hitl archive``."""

from __future__ import annotations

import logging

from django.db.models import QuerySet

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.models import Thread
from hitl_django.worker.retention import apply_retention_periods, iterate_batches

from .moves import archive_threads, create_partitions_for, select_archivable

logger = logging.getLogger("hitl_django")

BATCH = 20  # Number of threads per transaction. Each thread is read completely.


def archive_due() -> None:
    """Archive one batch of threads that ended more than ARCHIVE_DAYS days ago."""
    apply_retention_periods(
        "archived", archive_ended, hitl.ARCHIVE_DAYS, "archive --older-than {days:g}d"
    )


def archive_ended(days: float, limit: int, graph: str | None = None) -> int:
    """Archive the threads that ended at least ``days`` days ago, and return their number.

    At most ``limit`` threads are archived. ``graph`` selects the threads of one graph. Each
    transaction moves at most ``BATCH`` threads. If a thread can't be archived, the other threads
    are archived first. The error is then raised.
    """
    using = write_alias()
    archivable = select_archivable(using, days)
    if graph is not None:
        archivable = archivable.filter(graph=graph)
    archived, refused = 0, list[Exception]()
    for chosen in iterate_batches(archivable, BATCH):
        chosen = chosen[: limit - archived]
        # Without partitions, no thread can be archived.
        create_partitions_for(archivable.filter(pk__in=chosen))
        moved, failures = _archive(archivable, chosen)
        archived += moved
        refused += failures
        if archived >= limit:
            break
    if archived:
        logger.info("retention: threads archived: %s", archived)
    if refused:
        raise refused[0]
    return archived


def _archive(archivable: QuerySet[Thread], chosen: list[int]) -> tuple[int, list[Exception]]:
    """Archive the threads with the primary keys ``chosen`` in one transaction.

    If the transaction fails, archive each thread separately. Return the number of archived threads,
    and the errors.
    """
    try:
        return len(archive_threads(archivable.filter(pk__in=chosen))), []
    except Exception as error:
        if len(chosen) == 1:
            # Log only the error's type, because the message may quote content of the thread.
            logger.error("thread %s could not be archived: %s", chosen[0], type(error).__name__)
            return 0, [error]
    each = [_archive(archivable, [thread]) for thread in chosen]
    return sum(moved for moved, _ in each), [error for _, failures in each for error in failures]
