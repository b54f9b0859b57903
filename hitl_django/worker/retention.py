"""Retention of threads that have ended: deletes them, or prunes them to their newest state.

A thread has ended when its runs have, whichever way; one that waits, works or is parked has not,
however old it is. Several processes may do this at once: each takes threads that nobody has locked.
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
from hitl_django.extensions import iterate_archives
from hitl_django.models import Checkpoint, Run, RunEvent, Thread
from hitl_django.models.functions import Now

logger = logging.getLogger("hitl_django")

M = TypeVar("M", bound=Model)
#: Where days are given by graph, all graphs that aren't named there.
OTHER_GRAPHS = "*"
BATCH = 100  # threads of one transaction


def apply_terms(
    done: str,
    act: Callable[[float, int, str | None], int],
    terms: float | Mapping[str, float | None] | None,
    command: str,
) -> None:
    """Call a function for threads that ended before the days of the terms, one batch in all.

    The function gets the days, the largest number of threads and the graph, and returns the number
    of threads. ``done`` and ``command`` are for the log: a participle and the arguments of ``hitl``
    that perform the same.
    """
    left = hitl.SWEEP_BATCH
    for days, graph in list_terms(terms):
        try:
            left -= act(days, left, graph)
        except Exception as error:
            # Nobody waits for it, as somebody does for the runs; rows of the project's own that
            # forbid it are named by the exception, which may quote them.
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


def list_terms(
    terms: float | Mapping[str, float | None] | None,
) -> Iterator[tuple[float, str | None]]:
    """Yield the days that threads are kept, each with the graph that it is for; None is all.

    ``terms`` is the value of a setting such as RETENTION_DAYS: days, days by graph, or None to keep
    all threads. The days of ``OTHER_GRAPHS`` are yielded for each other graph with ended threads,
    so that a query by graph can use the index.
    """
    if not isinstance(terms, Mapping):
        if terms is not None:
            yield terms, None
        return
    graphs = list(terms) if terms.get(OTHER_GRAPHS) is None else _list_graphs(write_alias())
    for graph in graphs:
        days = terms.get(graph, terms.get(OTHER_GRAPHS))
        if days is not None:
            yield days, graph


def _list_graphs(using: str) -> list[str]:
    """List the graphs of threads that ended, each found by one step in an index."""
    found = set[str]()
    models: list[type[Model]] = [Thread, *(model for model, _ in iterate_archives())]
    for model in models:
        ended = model._default_manager.using(using).filter(ended_at__isnull=False)
        rest = ended.filter(graph__gte="")  # all, from where the index begins
        while graphs := list(rest.order_by("graph").values_list("graph", flat=True)[:1]):
            found.update(graphs)
            rest = ended.filter(graph__gt=graphs[0])
    return sorted(found)


def delete_ended(days: float, limit: int, graph: str | None = None) -> int:
    """Delete threads that ended that long ago, those longest ago first; return how many.

    They are those of all graphs or of one.

    All of a thread goes: state, runs, questions, decisions, audit entries. A transaction holds
    ``BATCH`` threads at most. Threads that can't be deleted, because rows of the project's own
    forbid it, keep none of the others: the first such error is raised when those are gone.
    Archived threads go as all others do, behind them.
    """
    using = write_alias()
    deleted, refused = 0, list[Exception]()
    for chosen in iterate_batches(_of_graph(_at_rest(using, days), graph), BATCH):
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


def _delete_archived(model: type[Model], days: float, limit: int, graph: str | None) -> int:
    """Delete archived threads that ended that long ago; return how many."""
    archived = model._default_manager.using(write_alias())
    old = _of_graph(archived.filter(ended_at__lt=_before(days)), graph)
    deleted = 0
    while deleted < limit:
        chosen = old.order_by("ended_at", "pk").values_list("pk", flat=True)
        gone = list(chosen[: min(BATCH, limit - deleted)])
        if not gone:
            break
        deleted += old.filter(pk__in=gone).delete()[0]
    return deleted


def _delete(using: str, days: float, chosen: list[int]) -> tuple[int, list[Exception]]:
    """Delete these threads together, or where that fails each by itself."""
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
        # Looked at again behind the lock: a new run may have been started just before.
        gone = _lock(_at_rest(using, days).exclude(Run.exists_live()).filter(pk__in=chosen))
        Thread.objects.using(using).filter(pk__in=gone).delete()
    return len(gone)


def prune_ended(days: float, graph: str | None = None) -> Iterator[int]:
    """Prune threads that ended that long ago to their newest checkpoints.

    The newest state can still be read and decisions stand; what came between is gone. Yields as it
    goes how many they are. One that can't be pruned keeps none of the others: the first such error
    is raised behind them.
    """
    using = write_alias()
    # What is left of a pruned thread has no parent any more.
    older = Checkpoint.objects.filter(thread=OuterRef("pk"), parent_id__isnull=False)
    refused: list[Exception] = []
    for ended in iterate_batches(_of_graph(_at_rest(using, days), graph), BATCH):
        rows = Thread.objects.using(using).exclude(Run.exists_live())
        threads = rows.filter(Exists(older), pk__in=ended)
        pruned = 0
        for thread_id in list(threads.values_list("thread_id", flat=True)):
            try:
                DjangoSaver().prune([thread_id])
                pruned += 1
            except Exception as error:
                # Its type alone: it may quote what the thread holds.
                named = type(error).__name__
                fields = {"thread_id": thread_id}
                logger.error("thread %r could not be pruned: %s", thread_id, named, extra=fields)
                refused.append(error)
        if pruned:
            logger.info("retention: threads pruned: %s", pruned)
            yield pruned
    if refused:
        raise refused[0]


@retry_on_conflict
def delete_events(days: float, limit: int) -> int:
    """Delete the events of runs that ended that long ago; return how many runs there were.

    A transaction holds those of ``BATCH`` runs at most. The runs stay, and say which of their
    events are kept.
    """
    using = write_alias()
    # As the index has it: runs of which nothing is kept any more are not looked at.
    old = Run.objects.using(using).filter(finished_at__lt=_before(days))
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
    """Yield the keys of threads that have ended, along the index."""
    rest = ended = threads.order_by("ended_at", "pk")
    while rows := list(rest.values_list("ended_at", "pk", named=True)[:size]):
        yield [row.pk for row in rows]
        at, last = rows[-1].ended_at, rows[-1].pk
        rest = ended.filter(ended_at__gte=at).exclude(ended_at=at, pk__lte=last)


def _at_rest(using: str, days: float) -> QuerySet[Thread]:
    """Return the threads whose last run ended before, and that no run waits for."""
    return Thread.objects.using(using).filter(ended_at__lt=_before(days), has_waiting=False)


def _of_graph(rows: QuerySet[M], graph: str | None) -> QuerySet[M]:
    return rows if graph is None else rows.filter(graph=graph)


def _before(days: float) -> Combinable:
    return Now() - timedelta(days=days)


def _lock(rows: QuerySet[Any], most: int | None = None) -> list[Any]:
    """Lock the first rows that nobody else holds, where the database can; return their keys."""
    if connections[rows.db].features.has_select_for_update_skip_locked:
        rows = rows.select_for_update(skip_locked=True, of=("self",))
    return list(rows.values_list("pk", flat=True)[:most])
