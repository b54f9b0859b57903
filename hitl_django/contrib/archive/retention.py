"""Archiving of ended threads, by ``ARCHIVE_DAYS`` and ``hitl archive``."""

from __future__ import annotations

import logging

from django.db.models import QuerySet

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.models import Thread
from hitl_django.worker.retention import apply_terms, iterate_batches

from .moves import archive_threads, make_room, select_archivable

logger = logging.getLogger("hitl_django")

BATCH = 20  # threads of one transaction, each of which is read whole


def archive_due() -> None:
    """Archive threads that ended before ARCHIVE_DAYS, one batch."""
    apply_terms("archived", archive_ended, hitl.ARCHIVE_DAYS, "archive --older-than {days:g}d")


def archive_ended(days: float, limit: int, graph: str | None = None) -> int:
    """Archive threads that ended that long ago, of one graph or all; return their number.

    A transaction moves at most ``BATCH`` threads. A thread that can't be archived does not stop the
    others; its error is raised afterwards.
    """
    using = write_alias()
    archivable = select_archivable(using, days)
    if graph is not None:
        archivable = archivable.filter(graph=graph)
    archived, refused = 0, list[Exception]()
    for chosen in iterate_batches(archivable, BATCH):
        chosen = chosen[: limit - archived]
        # If partitions can't be created, no thread can be archived.
        make_room(archivable.filter(pk__in=chosen))
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
    """Archive these threads together or, if that fails, one by one."""
    try:
        return len(archive_threads(archivable.filter(pk__in=chosen))), []
    except Exception as error:
        if len(chosen) == 1:
            # Only the type: the message may quote content of the thread.
            logger.error("thread %s could not be archived: %s", chosen[0], type(error).__name__)
            return 0, [error]
    each = [_archive(archivable, [thread]) for thread in chosen]
    return sum(moved for moved, _ in each), [error for _, failures in each for error in failures]
