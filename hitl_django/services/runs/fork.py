"""Forks: runs that continue from an earlier checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F

from hitl_django import audit, leases, run_events
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine import ids
from hitl_django.engine.constants import COPY, END, INPUT
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, CheckpointTuple, Commit
from hitl_django.engine.state.schema import check_input, get_hints
from hitl_django.engine.types import Command, RunnableConfig
from hitl_django.errors import CheckpointNotFound, NoSuchThread, RunStateError
from hitl_django.graph_registry import compatibility, registry, state_migration
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.models.events import encode_kinds
from hitl_django.permissions import (
    find_row,
    get_policy,
    may_start,
    refuse_unless_may,
    select_visible,
)
from hitl_django.task_queue import dispatcher

from .. import denied_log
from ..results import RunInfo
from .cancel import cancel_run
from .options import RunOptions
from .state import digest_masked, find_graph_of_run, find_thread
from .waiting import refuse_if_waited_for

#: States of the newest run in which a fork can replace it. A running run can be replaced only after
#: its worker's lease has expired.
REPLACED = sorted(set(Run.State.values) - {Run.State.RUNNING})


@retry_on_conflict
def fork(
    thread_id: str,
    checkpoint_id: str | None,
    *,
    values: Any = None,
    as_node: str | None = None,
    events: Iterable[str] | None = None,
    options: RunOptions | None = None,
    keep_queued: bool = False,
    by: Any = None,
    via: str = "code",
) -> RunInfo:
    """Queue a run that continues from a checkpoint of a thread.

    The steps after the checkpoint stay in the history. If the thread's newest run hasn't ended, it
    is cancelled, and its pending interrupts are superseded.

    Args:
        thread_id: the thread.
        checkpoint_id: the checkpoint. None selects the newest checkpoint of the thread.
        values: values to write to the state before the run continues, as the output of the node
            ``as_node``. If ``as_node`` is ``"__input__"``, ``values`` is a new input, or a Command
            with an update or with nodes to go to.
        as_node: a node to skip. The run continues after this node, or ends if this is ``END``. If
            only ``values`` are given, this is the node that ran last. Without ``values`` and
            ``as_node``, the steps after the checkpoint run again.
        events: the kinds of events to store, instead of those of the thread's newest run.
        options: options of the new run. By default, the options of the thread's newest run are
            copied. If ``options`` are given, only ``context`` and ``configurable`` are copied,
            unless ``options`` contain them.
        keep_queued: whether to raise RunStateError instead of cancelling a queued run.

    Raises:
        RunStateError: if a worker has the lease of the thread, other runs wait for the thread, or
            ``keep_queued`` is given and the newest run is queued.
        CheckpointNotFound: if the thread has no such checkpoint.
        GraphChangedError: if the registered graph can't continue from the checkpoint.
        InvalidInputError: if the values or the node are not valid.
        NotAllowedError: if the user may not operate the thread's newest run.
    """
    using = write_alias()
    with denied_log.record_denial("fork", by=by, via=via):
        thread, last = find_operated(thread_id, by)
        refuse_input(last, values, by, via)
        registered = find_graph_of_run(last)
        check_values(registered, values, as_node)
        base = find_checkpoint(thread, checkpoint_id)
        # Plan the run before the transaction, because this calls branches of the graph, which may
        # take time. A checkpoint never changes, so the result remains valid.
        run = _new_run(thread, last, registered, base, by)
        if events is not None:
            run.events = encode_kinds(events)
        if options is not None:
            run.options = registry.note_pin(registered, options.encode(registered, last.options))
        commit = plan_commit(registered, base, run, values, as_node)
        with transaction.atomic(using=using):
            thread = leases.lock_thread(pk=thread.pk)
            _, last = find_operated(thread_id, by)
            checkpoint_id = base.checkpoint["id"]
            if keep_queued:
                refuse_if_queued(last)
            refuse_unless_free(thread, last, checkpoint_id)
            refuse_if_waited_for(thread)
            key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
            compatibility.refuse_if_changed(
                key, find_run_of(base, last).fingerprint, registered, checkpoint_id=checkpoint_id
            )
            batch = WriteBatch(using)
            before, closed = str(last.state), end_newest_run(batch, last, thread)
            run.number = Run.find_next_number(using, thread.pk)
            run.save(using=using, force_insert=True)
            run_events.append_event(batch, run, Run.State.QUEUED, reason="forked")
            compatibility.store_structure(registered)
            store_commit(commit, thread)
            audit.append(
                batch,
                thread,
                "fork",
                by=by,
                via=via,
                subject=str(run.pk),
                detail={
                    "checkpoint": checkpoint_id,
                    "from": before,
                    "replaced": str(last.pk),
                    "interrupts": closed,
                    "as_node": as_node,
                    "values": None if values is None else digest_masked(registered, values),
                },
            )
            dispatcher.enqueue(run.pk, batch)
            batch.run()
            return RunInfo.from_row(run, created=True)


def find_operated(thread_id: str, by: Any) -> tuple[Thread, Run]:
    """Return a thread and its newest run.

    Raises:
        NotAllowedError: if the user may not operate the run.
    """
    thread = find_thread(thread_id, by)
    runs = Run.select_newest(Run.objects.using(write_alias()).select_related("thread"))
    run = find_row(select_visible(runs, by), NoSuchThread, thread=thread)
    message = "You don't have permission to fork this thread."
    refuse_unless_may(by, get_policy().may_operate, run, message)
    return thread, run


def refuse_input(last: Run, values: Any, by: Any, via: str) -> None:
    """Raise NotAllowedError if the user may not fork the run ``last`` with these values.

    If a graph restricts the users who may start it, the user needs the permission to start the
    graph, as for a new input.
    """
    if by is None or values is None:
        return
    graph = last.graph
    says_who = registry.get_starter_groups(graph)
    says_where = via == "api" and not registry.is_startable_over_api(graph)
    if says_who or says_where:
        message = "You don't have permission to fork with different values."
        refuse_unless_may(by, lambda user, run: may_start(user, run.graph, via), last, message)


def check_values(registered: RegisteredGraph, values: Any, as_node: str | None) -> None:
    """Raise InvalidInputError for an unknown node, or values that don't fit the graph's state."""
    graph = registered.graph
    other = END if values is None else INPUT
    if as_node is not None and as_node not in graph.nodes and as_node != other:
        raise InvalidInputError(
            f"Graph {registered.name!r} has no node {as_node!r}.",
            [("as_node", "is not a node of the graph")],
        )
    if values is not None and not isinstance(values, Command):
        check_input(get_hints(graph.state_schema), graph.state_schema, values)


def find_checkpoint(thread: Thread, checkpoint_id: str | None) -> CheckpointTuple:
    """Return a checkpoint of the root graph, or the newest one if no id is given.

    Checkpoints of subgraphs can't be selected, because a subgraph continues with its parent graph.

    Raises:
        CheckpointNotFound: if the checkpoint doesn't exist.
    """
    keys = {"thread_id": thread.thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        keys["checkpoint_id"] = checkpoint_id
    found = DjangoSaver().get_tuple({"configurable": keys})
    if found is None:
        raise CheckpointNotFound
    return found


def _new_run(
    thread: Thread, last: Run, registered: RegisteredGraph, base: CheckpointTuple, by: Any
) -> Run:
    return Run(
        thread=thread,
        graph=registered.name,
        graph_version=registered.version,
        fingerprint=registered.fingerprint,
        input_digest=last.input_digest,
        events=last.events,
        options=registry.note_pin(registered, last.options),
        step=base.metadata.get("step", -1),
        started_by=by,
        started_by_label=audit.label_user(by),
        origin=_find_origin(base, last),
    )


def _find_origin(base: CheckpointTuple, last: Run) -> UUID:
    """Return the id of the first run in the chain of forks that led to the checkpoint ``base``."""
    run = find_run_of(base, last)
    return run.origin or run.pk


class _Planner(BaseCheckpointSaver):
    """A saver that presents a given checkpoint as the newest, and collects commits in memory."""

    def __init__(self, base: CheckpointTuple) -> None:
        self.base = base
        self.commits: list[Commit] = []

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        named = config["configurable"]
        is_newest = named.get("checkpoint_id") in (None, self.base.checkpoint["id"])
        if is_newest and not named.get("checkpoint_ns"):
            return self.base
        return DjangoSaver().get_tuple(config)

    def commit(self, commit: Commit) -> None:
        self.commits.append(commit)


def plan_commit(
    registered: RegisteredGraph, base: CheckpointTuple, run: Run, values: Any, as_node: str | None
) -> Commit:
    """Return the commit with which ``run`` starts from the checkpoint ``base``.

    The commit isn't stored. ``values`` and ``as_node`` are those of ``fork``.
    """
    planner = _Planner(base)
    # The pending interrupts are superseded together with their run.
    coordinates = {**base.config["configurable"], "discard_pending": True}
    metadata = state_migration.build_metadata(registered, run.pk, run.graph_version)
    config = {"configurable": coordinates, "metadata": metadata}
    graph = state_migration.migrate_state(registered, base).graph.with_saver(planner)
    if values is None and as_node is None:
        graph.update_state(config, None, COPY)
    else:
        # Use a new task id, so that the writes of the original task are preserved.
        graph.update_state(config, values, as_node, str(uuid4()))
    (commit,) = planner.commits
    return commit


def refuse_if_queued(last: Run) -> None:
    """Raise RunStateError if the run ``last`` is queued."""
    if last.state == Run.State.QUEUED:
        raise RunStateError(
            f"Thread {last.thread.thread_id!r} has a {last.state} run.",
            state=str(last.state),
            allowed=[state for state in REPLACED if state != Run.State.QUEUED],
        )


def refuse_unless_free(thread: Thread, last: Run, checkpoint_id: str) -> None:
    """Raise an error if a worker has the lease on the thread, or the checkpoint was deleted.

    ``last`` is the newest run of the thread.
    """
    if thread.lease_until is not None and thread.lease_until > thread.now:
        raise RunStateError(
            "A worker is running this thread. Cancel its run, or wait until it stops.",
            state=str(last.state),
            allowed=REPLACED,
        )
    # The checkpoint may have been pruned after it was read.
    rows = Checkpoint.objects.using(write_alias()).filter(thread=thread, ns="")
    if not rows.filter(checkpoint_id=checkpoint_id).exists():
        raise CheckpointNotFound


def find_run_of(base: CheckpointTuple, last: Run) -> Run:
    """Return the thread's run that stored the checkpoint ``base``.

    If no run of this thread stored the checkpoint, the thread's newest run ``last`` is returned.
    """
    try:
        run_id = UUID(str(base.metadata.get("run_id")))
    except ValueError:  # The checkpoint was not stored by a run.
        return last
    runs = Run.objects.using(write_alias()).filter(thread=last.thread_id, pk=run_id)
    return runs.first() or last


def end_newest_run(batch: WriteBatch, last: Run, thread: Thread) -> list[str]:
    """Cancel the newest run ``last`` if it is active, and invalidate all leases on the thread.

    Returns the ids of the interrupts that were superseded.
    """
    closed: list[str] = []
    if last.state in Run.ACTIVE:
        closed = cancel_run(batch, last, thread, interrupts=Interrupt.Status.SUPERSEDED)
    # Change the epoch in every state. A suspended worker may still expect to have the lease, and
    # can't write in a new epoch.
    Thread.objects.using(write_alias()).filter(pk=thread.pk).update(
        epoch=F("epoch") + 1, attempts=0, lease_owner="", lease_until=None, ended_at=None
    )
    thread.refresh_from_db(write_alias(), fields=["epoch"])
    return closed


def store_commit(commit: Commit, thread: Thread) -> None:
    """Store the checkpoint of ``commit`` as the thread's newest checkpoint.

    The newest checkpoint is the checkpoint with the greatest id. Ids depend on the clocks of
    several machines, so this function gives the checkpoint an id greater than the newest id.
    """
    rows = Checkpoint.objects.using(write_alias()).filter(thread=thread, ns="")
    newest = rows.order_by("-checkpoint_id").values_list("checkpoint_id", flat=True)[0]
    assert commit.checkpoint is not None
    ids.sort_ids_after(newest)
    commit.checkpoint["id"] = ids.new_uuid6()
    DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch)).commit(commit)
