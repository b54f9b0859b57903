"""Retention of ended threads: they are deleted, or pruned to their newest state.

A thread has ended when all of its runs have ended. A thread with an active or waiting run is kept
regardless of its age. Several processes may apply retention simultaneously, because each process
skips threads that another process has locked.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connections, transaction
from django.db.models import Exists, F, Model, OuterRef, QuerySet
from django.db.models.expressions import Combinable

from hitl_django.checkpoints import DjangoSaver
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.extensions import iterate_archives, list_extensions
from hitl_django.models import Checkpoint, Run, RunEvent, Thread
from hitl_django.models.functions import Now

logger = logging.getLogger("hitl_django")

M = TypeVar("M", bound=Model)
#: The key for all graphs that have no entry of their own.
OTHER_GRAPHS = "*"
BATCH = 100  # The number of threads of one transaction.


def apply_retention_periods(
    done: str,
    act: Callable[[float, int, str | None], int],
    periods: float | Mapping[str, float | None] | None,
    command: str,
) -> None:
    """Call ``act`` for each retention period in ``periods``.

    ``act`` gets a number of days, the maximum number of threads, and a graph (None for all graphs).
    ``act`` processes threads that ended more than this number of days ago, and returns the number
    of processed threads. ``done`` and ``command`` are used in log messages: ``done`` is a
    participle such as "deleted", and ``command`` contains the arguments of ``hitl`` with the same
    effect.
    """
    left = hitl.SWEEP_BATCH
    for days, graph in list_retention_periods(periods):
        try:
            left -= act(days, left, graph)
        except Exception as error:
            # The message of the error isn't logged, because it may quote rows of the project that
            # prevent the deletion.
            logger.error(
                "retention: ended threads could not be %s (%s); run 'manage.py hitl %s' "
                "for details",
                done,
                type(error).__name__,
                command.format(days=days)
                + ("" if graph is None else f" --graph {shlex.quote(graph)}"),
            )
        if left <= 0:
            return


def list_retention_periods(
    periods: float | Mapping[str, float | None] | None,
) -> Iterator[tuple[float, str | None]]:
    """Yield the numbers of days for which threads are kept, each with its graph.

    ``periods`` is the value of a setting such as RETENTION_DAYS: a number of days, a dict of days
    by graph, or None to keep all threads. The graph is None if the days apply to all graphs. The
    days of ``OTHER_GRAPHS`` are yielded for each graph that has ended threads and is not in the
    dict, so that each query for a graph can use the index.
    """
    if not isinstance(periods, Mapping):
        if periods is not None:
            yield periods, None
        return
    graphs = list(periods) if periods.get(OTHER_GRAPHS) is None else _list_graphs(write_alias())
    for graph in graphs:
        days = periods.get(graph, periods.get(OTHER_GRAPHS))
        if days is not None:
            yield days, graph


def find_shortest_retention_period(graph: str | None = None) -> float | None:
    """Return the smallest number of days after which ended threads are deleted or archived.

    If ``graph`` is None, the threads of all graphs are considered. Return None if all threads are
    kept.
    """
    names = ["RETENTION_DAYS", *(name for each in list_extensions() for name in each.retention)]
    return min(
        (days for name in names for days in _list_days(getattr(hitl, name), graph)), default=None
    )


def _list_days(
    periods: float | Mapping[str, float | None] | None, graph: str | None
) -> list[float]:
    if isinstance(periods, Mapping):
        found = (
            periods.values() if graph is None else [periods.get(graph, periods.get(OTHER_GRAPHS))]
        )
        return [days for days in found if days is not None]
    return [] if periods is None else [periods]


def _list_graphs(using: str) -> list[str]:
    """Return the graphs that have ended threads, with one index lookup per graph."""
    found = set[str]()
    models: list[type[Model]] = [Thread, *(model for model, _ in iterate_archives())]
    for model in models:
        ended = model._default_manager.using(using).filter(ended_at__isnull=False)
        rest = ended.filter(graph__gte="")  # These are all rows, from the start of the index.
        while graphs := list(rest.order_by("graph").values_list("graph", flat=True)[:1]):
            found.update(graphs)
            rest = ended.filter(graph__gt=graphs[0])
    return sorted(found)


def delete_ended(days: float, limit: int, graph: str | None = None) -> int:
    """Delete threads that ended more than ``days`` days ago, and return their number.

    At most ``limit`` threads are deleted, starting with the threads that ended first. ``graph``
    limits the deletion to one graph. All data of the threads is deleted: state, runs, interrupts,
    decisions and audit log. Each transaction deletes at most ``BATCH`` threads. Archived threads
    are deleted last. If rows of the project prevent the deletion of a thread, the other threads are
    still deleted, and the first such error is then raised.
    """
    using = write_alias()
    deleted, refused = 0, list[Exception]()
    for chosen in iterate_batches(_filter_graph(_select_ended(using, days), graph), BATCH):
        gone, failures = _delete(using, days, chosen[: limit - deleted])
        deleted += gone
        refused += failures
        if deleted >= limit:
            break
    for model, _ in iterate_archives():
        deleted += _delete_archived(model, days, limit - deleted, graph)
    if deleted:
        logger.info("retention: threads deleted: %s", deleted)
    if refused:
        raise refused[0]
    return deleted


def count_deletable(days: float, graph: str | None = None) -> int:
    """Return the number of threads, archived or not, that ``delete_ended`` would delete."""
    using = write_alias()
    threads = _filter_graph(_select_ended(using, days).exclude(Run.exists_active()), graph)
    return threads.count() + sum(
        _select_archived(model, days, graph).count() for model, _ in iterate_archives()
    )


def _select_archived(model: type[Model], days: float, graph: str | None) -> QuerySet[Model]:
    archived = model._default_manager.using(write_alias())
    return _filter_graph(archived.filter(ended_at__lt=_subtract_days(days)), graph)


def _delete_archived(model: type[Model], days: float, limit: int, graph: str | None) -> int:
    old = _select_archived(model, days, graph)
    deleted = 0
    while deleted < limit:
        chosen = old.order_by("ended_at", "pk").values_list("pk", flat=True)
        gone = list(chosen[: min(BATCH, limit - deleted)])
        if not gone:
            break
        deleted += old.filter(pk__in=gone).delete()[0]
    return deleted


def _delete(using: str, days: float, chosen: list[int]) -> tuple[int, list[Exception]]:
    """Delete the threads with the primary keys ``chosen`` in one transaction.

    After an error, delete each thread separately. Return the number of deleted threads, and the
    errors.
    """
    try:
        return _delete_together(using, days, chosen), []
    except Exception as error:
        if len(chosen) == 1:
            return 0, [error]
    gone, failures = 0, list[Exception]()
    for thread in chosen:
        deleted, failed = _delete(using, days, [thread])
        gone += deleted
        failures += failed
    return gone, failures


@retry_on_conflict
def _delete_together(using: str, days: float, chosen: list[int]) -> int:
    with transaction.atomic(using=using):
        # The condition is checked again with the lock, because a run may have started in the
        # meantime.
        gone = _lock(_select_ended(using, days).exclude(Run.exists_active()).filter(pk__in=chosen))
        Thread.objects.using(using).filter(pk__in=gone).delete()
    return len(gone)


def prune_ended(days: float, graph: str | None = None) -> Iterator[int]:
    """Delete all but the newest checkpoints of threads that ended more than ``days`` days ago.

    The newest state and the decisions remain. Yield the number of pruned threads after each batch.
    If a thread can't be pruned, the other threads are still pruned, and the first such error is
    then raised.
    """
    using = write_alias()
    refused: list[Exception] = []
    for ended in iterate_batches(_filter_graph(_select_ended(using, days), graph), BATCH):
        threads = _select_prunable(Thread.objects.using(using).filter(pk__in=ended))
        pruned = 0
        for thread_id in list(threads.values_list("thread_id", flat=True)):
            try:
                DjangoSaver().prune([thread_id])
                pruned += 1
            except Exception as error:
                # Only the type is logged, because the message may quote data of the thread.
                named = type(error).__name__
                fields = {"thread_id": thread_id}
                logger.error("thread %r could not be pruned: %s", thread_id, named, extra=fields)
                refused.append(error)
        if pruned:
            logger.info("retention: threads pruned: %s", pruned)
            yield pruned
    if refused:
        raise refused[0]


def count_prunable(days: float, graph: str | None = None) -> int:
    """Return the number of threads that ``prune_ended`` would prune."""
    return _select_prunable(_filter_graph(_select_ended(write_alias(), days), graph)).count()


def _select_prunable(threads: QuerySet[Thread]) -> QuerySet[Thread]:
    """Return the threads that have no active run and still have older checkpoints."""
    # The remaining checkpoints of a pruned thread have no parent.
    older = Checkpoint.objects.filter(thread=OuterRef("pk"), parent_id__isnull=False)
    return threads.exclude(Run.exists_active()).filter(Exists(older))


@retry_on_conflict
def delete_events(days: float, limit: int) -> int:
    """Delete the events of runs that ended more than ``days`` days ago.

    Return the number of these runs, at most ``limit``. Each transaction deletes the events of at
    most ``BATCH`` runs. The row of a run stores which of its events remain.
    """
    using = write_alias()
    # The query uses the index, so that runs without remaining events are not read.
    old = Run.objects.using(using).filter(finished_at__lt=_subtract_days(days))
    kept = old.filter(first_event__lte=F("last_event"))
    pruned = 0
    while pruned < limit:
        with transaction.atomic(using=using):
            runs = _lock(kept.order_by("finished_at"), min(BATCH, limit - pruned))
            RunEvent.objects.using(using).filter(run__in=runs).delete()
            rows = Run.objects.using(using).filter(pk__in=runs)
            rows.update(first_event=F("last_event") + 1)
        pruned += len(runs)
        if not runs:
            break
    if pruned:
        logger.info("retention: runs with deleted events: %s", pruned)
    return pruned


def iterate_batches(threads: QuerySet[Thread], size: int) -> Iterator[list[int]]:
    """Yield the primary keys of ended threads in batches of ``size``, oldest end first."""
    rest = ended = threads.order_by("ended_at", "pk")
    while rows := list(rest.values_list("ended_at", "pk", named=True)[:size]):
        yield [row.pk for row in rows]
        at, last = rows[-1].ended_at, rows[-1].pk
        rest = ended.filter(ended_at__gte=at).exclude(ended_at=at, pk__lte=last)


def _select_ended(using: str, days: float) -> QuerySet[Thread]:
    """Return the threads that ended more than ``days`` days ago and have no waiting runs."""
    return Thread.objects.using(using).filter(ended_at__lt=_subtract_days(days), has_waiting=False)


def _filter_graph(rows: QuerySet[M], graph: str | None) -> QuerySet[M]:
    return rows if graph is None else rows.filter(graph=graph)


def _subtract_days(days: float) -> Combinable:
    return Now() - timedelta(days=days)


def _lock(rows: QuerySet[Any], most: int | None = None) -> list[Any]:
    """Lock the first ``most`` rows, and return their primary keys.

    If the database supports it, rows locked by other transactions are skipped.
    """
    if connections[rows.db].features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True, of=("self",))
    return list(rows.values_list("pk", flat=True)[:most])
