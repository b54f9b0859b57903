"""Under which shape of its graph a run was stored, and whether it can go on under today's.

A run names the shape by its fingerprint. The shape itself is stored once, so that a version of the
code that has another one can say what has changed.
"""

from __future__ import annotations

import logging
from uuid import UUID

from django.db import router, transaction

from .engine.checkpoint import CheckpointTuple
from .engine.errors import GraphChangedError, LeaseLostError
from .engine.fingerprint import changes
from .models import GraphShape, Run, Thread
from .registry import Registered
from .saver import DjangoSaver, ThreadKey, made_anew

logger = logging.getLogger("hitl_django")

#: Shapes that this process knows to be stored: (alias, fingerprint).
_stored: set[tuple[str, str]] = set()


def remember(registered: Registered) -> None:
    """Stores the graph's shape unless it is known to be stored."""
    using = router.db_for_write(GraphShape)
    known = (using, registered.fingerprint)
    if known in _stored:
        return
    row = GraphShape(
        fingerprint=registered.fingerprint,
        graph=registered.name,
        version=registered.version,
        shape=registered.shape,
    )
    GraphShape.objects.using(using).bulk_create([row], ignore_conflicts=True)
    # Known only once it is committed: the caller's transaction may yet roll back.
    transaction.on_commit(lambda: _stored.add(known), using=using)


def refuse_if_changed(
    thread: ThreadKey,
    stored: str,
    registered: Registered,
    *,
    new_input: bool = False,
    checkpoint_id: str | None = None,
) -> None:
    """Raises GraphChangedError where the thread, stored under ``stored``, can't go on.

    With ``new_input`` it gets some, so that only what its channels hold matters. It goes on from
    its newest checkpoint, or from that of ``checkpoint_id``.
    """
    if stored in ("", registered.fingerprint):
        return
    row = GraphShape.objects.using(router.db_for_write(GraphShape)).filter(pk=stored).first()
    if row is None:
        logger.warning("thread %s: its graph's shape %s is not stored", thread.thread_id, stored)
        return
    saver = DjangoSaver(thread)

    def load(ns: str) -> CheckpointTuple | None:
        place = {"thread_id": thread.thread_id, "checkpoint_ns": ns}
        if checkpoint_id is not None and not ns:
            place["checkpoint_id"] = checkpoint_id
        return saver.get_tuple({"configurable": place})

    found = changes(row.shape, registered.graph, load, new_input=new_input)
    if found:
        raise GraphChangedError(
            f"The thread was stored under another shape of the graph {registered.name!r}: "
            f"{'; '.join(found)}.",
            found,
        )
    logger.info("thread %s: shape %s, now %s", thread.thread_id, stored, registered.fingerprint)


@made_anew
def take_up(run_id: UUID, thread: ThreadKey, stored: str, registered: Registered) -> None:
    """Notes that the run goes on under the graph's shape, if it can.

    Before anything is run under it: a worker that is killed later leaves what the next one can
    compare.
    """
    refuse_if_changed(thread, stored, registered)
    using = router.db_for_write(Thread)
    with transaction.atomic(using=using):
        # The row's lock, and the epoch seen under it, keep a worker from this that has been
        # replaced. Zero rows: it has.
        ours = Thread.objects.using(using).select_for_update()
        if not ours.filter(pk=thread.pk, epoch=thread.epoch).exists():
            raise LeaseLostError
        remember(registered)
        Run.objects.using(using).filter(pk=run_id).update(fingerprint=registered.fingerprint)
