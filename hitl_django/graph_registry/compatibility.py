"""Compatibility of stored runs with the present shape of their graphs.

A run names the shape by its fingerprint. The shape itself is stored once, so that a version of the
code that has another one can say what has changed. ``created_at`` is when a process stored it last.
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

#: Seconds after which a process stores a shape again, and looks again for unused ones.
AGAIN = 3600.0
#: How long a shape that no run names is kept after a process stored it: it may be about to start a
#: run under it, so this has to be much longer than AGAIN and any transaction.
KEPT = timedelta(days=1)
BATCH = 100

#: Until when this process takes shapes for stored: (alias, fingerprint).
_stored: dict[tuple[str, str], float] = {}
#: When this process is to look for unused shapes of a database.
_looked: dict[str, float] = {}


def store_shape(registered: RegisteredGraph) -> None:
    """Store the shape of a graph unless this process knows it to be stored."""
    using = router.db_for_write(GraphShape)
    known = (using, registered.fingerprint)
    until = monotonic() + AGAIN
    if monotonic() < _stored.get(known, 0.0):
        return
    row = GraphShape(
        fingerprint=registered.fingerprint,
        graph=registered.name,
        version=registered.version,
        shape=registered.shape,
        created_at=Now(),
    )
    GraphShape.objects.using(using).bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["fingerprint"],
        update_fields=["created_at"],
    )
    # Known only once it is committed: the caller's transaction may yet roll back.
    transaction.on_commit(lambda: _stored.update({known: until}), using=using)


def remove_unused_shapes() -> int:
    """Delete the shapes that no run names any more, a batch of them; returns how many.

    Now and then only: what is unused stays so.
    """
    using = router.db_for_write(GraphShape)
    if monotonic() < _looked.get(using, 0.0):
        return 0
    _looked[using] = monotonic() + AGAIN
    # Not whether there is such a run: where all runs are known to have one shape, PostgreSQL looks
    # for another from one to the next. What comes next in the index is found at once.
    at_or_behind = Run.objects.filter(fingerprint__gte=OuterRef("pk")).order_by("fingerprint")
    shapes = GraphShape.objects.using(using).annotate(
        named=Subquery(at_or_behind.values("fingerprint")[:1])
    )
    is_unused = Q(named__isnull=True) | ~Q(named=F("pk"))
    unused = shapes.filter(is_unused, created_at__lt=Now() - KEPT)
    found = list(unused.values_list("pk", flat=True)[:BATCH])
    # Asked again by the statement that deletes: one may just have been stored anew.
    return unused.filter(pk__in=found).delete()[0] if found else 0


def clear_shapes() -> None:
    """Clear what this process knows of the stored shapes; for tests."""
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
    """Raise GraphChangedError where the thread, stored under ``stored``, can't go on.

    With ``new_input`` it gets some, so that only what its channels hold matters. It goes on from
    its newest checkpoint, or from that of ``checkpoint_id``.
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
        "thread %s: shape %s, now %s",
        thread.thread_id,
        stored,
        registered.fingerprint,
        extra={"thread_id": thread.thread_id, "graph": registered.name},
    )


@retry_on_conflict
def adopt_shape(run_id: UUID, thread: ThreadKey, stored: str, registered: RegisteredGraph) -> None:
    """Record that a run goes on under the graph's present shape; GraphChangedError if it can't.

    This comes before anything is run: a worker that is killed later leaves the shape that the next
    one has to compare with.
    """
    refuse_if_changed(thread, stored, registered)
    using = router.db_for_write(Thread)
    with transaction.atomic(using=using):
        # The row's lock, and the epoch seen under it, keep a worker from this that has been
        # replaced. Zero rows: it has.
        ours = Thread.objects.using(using).select_for_update()
        if not ours.filter(pk=thread.pk, epoch=thread.epoch).exists():
            raise LeaseLostError
        store_shape(registered)
        Run.objects.using(using).filter(pk=run_id).update(fingerprint=registered.fingerprint)
