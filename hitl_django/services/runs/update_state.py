"""Updates of a thread's state without a run."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from hitl_django import audit, leases
from hitl_django.checkpoints import ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import RunStateError
from hitl_django.graph_registry import compatibility
from hitl_django.models import Checkpoint, Run, Thread
from hitl_django.models.functions import Now

from .. import denied_log
from . import fork
from .state import digest_masked, find_graph_of_run


@retry_on_conflict
def update_state(
    thread_id: str,
    values: Any,
    *,
    as_node: str | None = None,
    checkpoint_id: str | None = None,
    by: Any = None,
    via: str = "code",
) -> str:
    """Write ``values`` to a thread's state without starting a run.

    The values are stored as the output of node ``as_node``. Returns the id of the new checkpoint,
    which follows ``checkpoint_id`` or, by default, the newest checkpoint. If ``values`` is None and
    ``as_node`` is ``END``, no task remains. To continue from the new checkpoint, call ``fork`` or
    start a run with new input. Like ``fork``, this function cancels an active newest run and
    supersedes its interrupts, and it raises the same errors.
    """
    using = write_alias()
    with denied_log.record_denial("update_state", by=by, via=via):
        thread, last = fork.find_operated(thread_id, by)
        fork.refuse_input(last, values, by, via)
        registered = find_graph_of_run(last)
        fork.check_values(registered, values, as_node)
        base = fork.find_checkpoint(thread, checkpoint_id)
        # Plan the commit before the transaction, because this calls branches of the graph.
        commit = fork.plan_commit(registered, base, last, values, as_node)
        with transaction.atomic(using=using):
            thread = leases.lock_thread(pk=thread.pk)
            _, last = fork.find_operated(thread_id, by)
            fork.refuse_unless_free(thread, last, base.checkpoint["id"])
            if checkpoint_id is None:
                _refuse_if_moved_on(thread, last, base.checkpoint["id"])
            key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
            fingerprint = fork.find_run_of(base, last).fingerprint
            compatibility.refuse_if_changed(
                key, fingerprint, registered, checkpoint_id=base.checkpoint["id"]
            )
            batch = WriteBatch(using)
            before, closed = str(last.state), fork.end_newest_run(batch, last, thread)
            # The thread has no active run.
            Thread.objects.using(using).filter(pk=thread.pk).update(ended_at=Now())
            fork.store_commit(commit, thread)
            assert commit.checkpoint is not None
            made: str = commit.checkpoint["id"]
            audit.append(
                batch,
                thread,
                "update_state",
                by=by,
                via=via,
                subject=made,
                detail={
                    "checkpoint": base.checkpoint["id"],
                    "from": before,
                    "interrupts": closed,
                    "as_node": as_node,
                    "values": None if values is None else digest_masked(registered, values),
                },
            )
            batch.run()
            return made


def _refuse_if_moved_on(thread: Thread, last: Run, checkpoint_id: str) -> None:
    rows = Checkpoint.objects.using(write_alias()).filter(thread=thread, ns="")
    if rows.order_by("-checkpoint_id").values_list("checkpoint_id", flat=True)[0] != checkpoint_id:
        raise RunStateError(
            "The thread has changed in the meantime. Read its state again.",
            state=str(last.state),
            allowed=fork.REPLACED,
        )
