"""How long threads that have ended are kept: deleted whole, or pruned to their newest state.

A thread has ended when its runs have, whichever way; one that waits, works or is parked has not,
however old it is. Several processes may do this at once: each takes threads that nobody has locked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

from django.db import connections, router, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from .models import Checkpoint, Run, RunEvent, Thread
from .saver import DjangoSaver

logger = logging.getLogger("hitl_django")

BATCH = 100  # threads of one transaction
LOOK = 500  # runs that one statement looks for


def delete_ended(days: float, limit: int) -> int:
    """Deletes threads that ended that long ago, those longest ago first; returns how many.

    All of a thread goes: state, runs, questions, decisions, audit entries. A transaction holds
    ``BATCH`` threads at most. Threads that can't be deleted, because rows of the project's own
    forbid it, keep none of the others: the first such error is raised when those are gone.
    """
    using = router.db_for_write(Thread)
    deleted, refused = 0, dict[int, Exception]()
    for ended in _ended(using, days):
        chosen = [thread for thread in ended if thread not in refused]
        while chosen and deleted < limit:
            size = min(BATCH, limit - deleted)
            gone, failures = _delete(using, days, chosen[:size])
            chosen = chosen[size:]
            deleted += gone
            refused |= failures
        if deleted >= limit:
            break
    if deleted:
        logger.info("retention: %s threads deleted", deleted)
    if refused:
        raise next(iter(refused.values()))
    return deleted


def _delete(using: str, days: float, chosen: list[int]) -> tuple[int, dict[int, Exception]]:
    """Deletes these threads together, or where that fails each by itself."""
    try:
        return _delete_together(using, days, chosen), {}
    except Exception as error:
        if len(chosen) == 1:
            return 0, {chosen[0]: error}
    gone, failures = 0, dict[int, Exception]()
    for thread in dict.fromkeys(chosen):
        deleted, failed = _delete(using, days, [thread])
        gone += deleted
        failures |= failed
    return gone, failures


def _delete_together(using: str, days: float, chosen: list[int]) -> int:
    with transaction.atomic(using=using):
        # Looked at again behind the lock: a new run may have been started just before.
        gone = _at_rest(using, days, _lock(using, chosen))
        Thread.objects.using(using).filter(pk__in=gone).delete()
    return len(gone)


def prune_ended(days: float, limit: int) -> int:
    """Leaves of threads that ended that long ago the newest checkpoints only; returns how many.

    The newest state can still be read and decisions stand; what came between is gone.
    """
    using = router.db_for_write(Thread)
    # What is left of a pruned thread has no parent any more.
    older = Checkpoint.objects.filter(thread=OuterRef("pk"), parent_id__isnull=False)
    names: list[str] = []
    for ended in _ended(using, days):
        threads = Thread.objects.using(using).filter(Exists(older), pk__in=ended)
        found = list(threads.values_list("thread_id", flat=True)[: limit - len(names)])
        DjangoSaver().prune(found)
        names += found
        if len(names) >= limit:
            break
    if names:
        logger.info("retention: %s threads pruned", len(names))
    return len(names)


def delete_events(days: float, limit: int) -> int:
    """Deletes the events of runs that ended that long ago; returns how many runs there were.

    A transaction holds those of ``BATCH`` runs at most. The runs stay, and say which of their
    events are kept.
    """
    using = router.db_for_write(Run)
    # As the index has it: runs of which nothing is kept any more are not looked at.
    told = _old(using, days).filter(first_event__lte=F("last_event"))
    pruned = 0
    while pruned < limit:
        with transaction.atomic(using=using):
            found = told.order_by("finished_at")
            if connections[using].features.has_select_for_update_skip_locked:
                found = found.select_for_update(skip_locked=True, of=("self",))
            runs = list(found.values_list("pk", flat=True)[: min(BATCH, limit - pruned)])
            RunEvent.objects.using(using).filter(run__in=runs).delete()
            rows = Run.objects.using(using).filter(pk__in=runs)
            rows.update(first_event=F("last_event") + 1)
        pruned += len(runs)
        if not runs:
            break
    if pruned:
        logger.info("retention: events of %s runs deleted", pruned)
    return pruned


def _ended(using: str, days: float) -> Iterator[list[int]]:
    """Yields the threads all of whose runs ended before, in portions, longest ago first.

    Along the index, and no run is looked at twice: of a thread that goes on there may be as many
    that ended as of all others.
    """
    ended = _old(using, days).order_by("finished_at", "pk")
    rows = list(ended.values_list("finished_at", "pk", "thread_id")[:LOOK])
    while rows:
        yield _at_rest(using, days, list(dict.fromkeys(thread for *_, thread in rows)))
        at, pk, _ = rows[-1]
        further = ended.filter(finished_at__gte=at).exclude(finished_at=at, pk__lte=pk)
        rows = list(further.values_list("finished_at", "pk", "thread_id")[:LOOK])


def _at_rest(using: str, days: float, threads: list[int]) -> list[int]:
    """Returns those of these threads of which no run is under way or ended later."""
    runs = Run.objects.using(using).filter(thread__in=threads).order_by()
    others = runs.exclude(finished_at__lt=_before(days)).values_list("thread_id", flat=True)
    going = set(others.distinct())
    return [thread for thread in threads if thread not in going]


def _old(using: str, days: float) -> QuerySet[Run]:
    return Run.objects.using(using).filter(finished_at__lt=_before(days))


def _before(days: float) -> Combinable:
    return Now() - timedelta(days=days)


def _lock(using: str, threads: list[int]) -> list[int]:
    rows = Thread.objects.using(using).filter(pk__in=threads)
    if connections[using].features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True, of=("self",))
    return list(rows.values_list("pk", flat=True))
