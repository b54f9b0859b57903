"""Compatibility of stored threads with the current structure of their graphs.

A graph's structure consists of its nodes, edges and channels. A run refers to a structure by its
fingerprint (a hash). Each structure is stored once, so that another version of the code can
describe the differences. ``created_at`` is the last time at which a process stored the structure.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic
from uuid import UUID

from django.db import router, transaction
from django.db.models import F, OuterRef, Q, Subquery

from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import GraphChangedError
from hitl_django.engine.graph.fingerprint import list_changes
from hitl_django.engine.savers.checkpoint import CheckpointTuple
from hitl_django.errors import LeaseLostError
from hitl_django.models import GraphShape, Run, Thread
from hitl_django.models.functions import Now

from . import state_migration
from .registry import RegisteredGraph

logger = logging.getLogger("hitl_django")

#: Seconds after which a process stores a structure again, and searches for unused structures again.
AGAIN = 3600.0
#: The time for which an unused structure is kept. A process that has stored a structure may be
#: about to start a run with it, so this must be much longer than AGAIN and any transaction.
KEPT = timedelta(days=1)
BATCH = 100

#: The time until which this process assumes that a structure is stored, by alias and fingerprint.
_stored: dict[tuple[str, str], float] = {}
#: The time at which this process next searches for unused structures, by alias.
_looked: dict[str, float] = {}


def store_structure(registered: RegisteredGraph) -> None:
    """Store the structure of a graph, unless this process has stored it recently."""
    using = router.db_for_write(GraphShape)
    known = (using, registered.fingerprint)
    until = monotonic() + AGAIN
    if monotonic() < _stored.get(known, 0.0):
        return
    row = GraphShape(
        fingerprint=registered.fingerprint,
        graph=registered.name,
        version=registered.version,
        shape=registered.structure,
        created_at=Now(),
    )
    GraphShape.objects.using(using).bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["fingerprint"],
        update_fields=["created_at"],
    )
    # The time is set only after the commit, because the caller's transaction may be rolled back.
    transaction.on_commit(lambda: _stored.update({known: until}), using=using)


def remove_unused_structures() -> int:
    """Delete a batch of graph structures to which no run refers, and return their number.

    If this process has already searched for unused structures in the last AGAIN seconds, nothing
    is deleted and 0 is returned.
    """
    using = router.db_for_write(GraphShape)
    if monotonic() < _looked.get(using, 0.0):
        return 0
    _looked[using] = monotonic() + AGAIN
    # Exists is slower: if all runs have the same structure, PostgreSQL would search all of them for
    # another structure. The next entry in the index is found immediately.
    at_or_behind = Run.objects.filter(fingerprint__gte=OuterRef("pk")).order_by("fingerprint")
    structures = GraphShape.objects.using(using).annotate(
        named=Subquery(at_or_behind.values("fingerprint")[:1])
    )
    is_unused = Q(named__isnull=True) | ~Q(named=F("pk"))
    unused = structures.filter(is_unused, created_at__lt=Now() - KEPT)
    found = list(unused.values_list("pk", flat=True)[:BATCH])
    # The DELETE checks the condition again, because a structure may have been stored again.
    return unused.filter(pk__in=found).delete()[0] if found else 0


def clear_structures() -> None:
    """Discard this process's cache of stored structures, for tests."""
    _stored.clear()
    _looked.clear()


def refuse_if_changed(
    thread: ThreadKey,
    stored: str,
    registered: RegisteredGraph,
    *,
    new_input: bool = False,
    checkpoint_id: str | None = None,
) -> None:
    """Raise GraphChangedError if a thread can't continue with the current graph.

    ``stored`` is the fingerprint of the structure with which the thread was stored. The pending
    tasks and the channel values of the newest checkpoint, or of ``checkpoint_id``, must fit the
    current graph. With ``new_input``, pending tasks are not checked, because new input discards
    them.
    """
    if stored in ("", registered.fingerprint):
        return
    row = GraphShape.objects.using(router.db_for_write(GraphShape)).filter(pk=stored).first()
    if row is None:
        fields = {"thread_id": thread.thread_id, "graph": registered.name}
        logger.warning(
            "thread %s: graph structure %s is not stored", thread.thread_id, stored, extra=fields
        )
        return
    saver = DjangoSaver(thread)

    def load(ns: str) -> CheckpointTuple | None:
        configurable = {"thread_id": thread.thread_id, "checkpoint_ns": ns}
        if checkpoint_id is not None and not ns:
            configurable["checkpoint_id"] = checkpoint_id
        return saver.get_tuple({"configurable": configurable})

    migrates = state_migration.needs_migration(registered, load(""))
    found = list_changes(row.shape, registered.graph, load, new_input=new_input, migrates=migrates)
    if found:
        raise GraphChangedError(
            "The stored thread is incompatible with the current structure of graph "
            f"{registered.name!r}: {'; '.join(found)}.",
            found,
        )
    logger.info(
        "thread %s: graph structure %s, now %s",
        thread.thread_id,
        stored,
        registered.fingerprint,
        extra={"thread_id": thread.thread_id, "graph": registered.name},
    )


@retry_on_conflict
def adopt_structure(
    run_id: UUID, thread: ThreadKey, stored: str, registered: RegisteredGraph
) -> None:
    """Store the current structure of the graph as the structure of a run that continues.

    ``stored`` is the fingerprint of the run's previous structure. The change is stored before any
    node runs: if the worker is killed later, the next worker compares the graph with the new
    structure.

    Raises:
        GraphChangedError: the thread can't continue with the current structure.
        LeaseLostError: another worker has the lease.
    """
    refuse_if_changed(thread, stored, registered)
    using = router.db_for_write(Thread)
    with transaction.atomic(using=using):
        # The lock and the epoch exclude a worker that has lost its lease. Zero rows: this worker
        # has lost its lease.
        own_rows = Thread.objects.using(using).select_for_update()
        if not own_rows.filter(pk=thread.pk, epoch=thread.epoch).exists():
            raise LeaseLostError
        store_structure(registered)
        Run.objects.using(using).filter(pk=run_id).update(fingerprint=registered.fingerprint)
