"""Import of threads from LangGraph's databases, with history, pending steps and interrupts.

A thread is imported completely or not at all. A thread with pending interrupts gets a queued run.
The worker that executes this run adds the interrupts to the review queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from hitl_django import audit, leases, run_events
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.channels import BaseChannel
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.graph.subgraphs import iterate_subgraphs
from hitl_django.engine.savers.checkpoint import CheckpointTuple, Commit
from hitl_django.errors import RunStateError, ThreadExistsError, UnknownGraphError
from hitl_django.graph_registry import compatibility, registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import AuditEntry, Checkpoint, Decision, Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.services.runs.archives import is_archived
from hitl_django.services.runs.cancel import cancel_run
from hitl_django.services.runs.threads import check_names
from hitl_django.task_queue import dispatcher

from .imported_state import check_known_nodes, find_state
from .pending_steps import PendingStep, Place, is_new, number_interrupts
from .thread_source import StoredCheckpoint, ThreadSource

#: Verb of the audit log entry about an import.
IMPORT = "import"
#: Maximum number of rows per statement.
BATCH = 500
#: Metadata key under which LangGraph's server stores the graph of a thread.
GRAPH_ID = "graph_id"


@retry_on_conflict
def import_thread(
    source: ThreadSource, thread_id: str, graph: str | None = None, *, dry_run: bool = False
) -> Run.State | None:
    """Import a thread, or the new checkpoints of a thread that was imported before.

    Everything is stored in one transaction. Return the state of the new run, or None if there is
    nothing new to import. ``graph`` is the registered graph with which the thread resumes, by
    default the graph in the thread's metadata. With ``dry_run``, the import is rolled back.

    Raises:
        HitlError: the id belongs to another thread, or the thread has continued both in the source
            and here since an earlier import.
        RunStateError: a worker is using the thread.
        GraphChangedError: the thread belongs to another graph.
        PayloadError: the thread contains values that can't be stored.
    """
    check_names(thread_id=thread_id)
    with source.snapshot(), transaction.atomic(using=write_alias()):
        state = _Import(source, thread_id, graph).perform()
        transaction.set_rollback(dry_run, using=write_alias())
        return state


class _Import:
    """The import of one thread in a transaction."""

    def __init__(self, source: ThreadSource, thread_id: str, graph: str | None) -> None:
        self.source, self.thread_id, self.graph = source, thread_id, graph
        self.found = source.list_checkpoints(thread_id)
        self.paths = source.read_paths(thread_id)
        #: Pending writes of checkpoints that have no child.
        self.pending: dict[Place, PendingStep] = {}
        #: The registered graph with which the thread resumes.
        self.registered: RegisteredGraph | None = None
        #: The times at which LangGraph stored the new checkpoints.
        self.stored_at: dict[Place, datetime] = {}

    def perform(self) -> Run.State | None:
        if is_archived(self.thread_id):
            return None
        thread = self._lock()
        if thread is not None:
            # Build the graph first, because its classes are allowed in values only afterwards.
            with suppress(UnknownGraphError):
                self.registered = registry.get_graph(thread.graph)
        known = set() if thread is None else self._list_known(thread)
        new = [one for one in self.found if (one.ns, one.checkpoint_id) not in known]
        grown = self._find_grown(known)
        if not new and not grown:
            return None
        newest = self._find_newest()
        registered = self.registered = self._find_graph(newest)
        root = self._read("", newest.checkpoint_id)
        check_known_nodes(root, registered)
        if thread is None:
            thread = self._create(registered)
        else:
            self._refuse_unless_ours(thread, known)
        saver = DjangoSaver(ThreadKey(thread.pk, thread.thread_id, thread.epoch))
        self._store(saver, new, grown)
        self._date(thread)
        return self._start_run(thread, registered, root, saver)

    def _lock(self) -> Thread | None:
        rows = Thread.objects.using(write_alias()).filter(thread_id=self.thread_id)
        pk = rows.values_list("pk", flat=True).first()
        return None if pk is None else leases.lock_thread(pk=pk)

    def _list_known(self, thread: Thread) -> set[Place]:
        rows = Checkpoint.objects.using(write_alias()).filter(thread=thread)
        return set(rows.values_list("ns", "checkpoint_id"))

    def _find_grown(self, known: set[Place]) -> dict[Place, CheckpointTuple]:
        """Return the checkpoints that have got new writes in the source since the last import.

        ``known`` are the checkpoints that were imported before. Checkpoints with an imported child
        are left out.
        """
        followed = {
            (one.ns, one.parent_id) for one in self.found if (one.ns, one.checkpoint_id) in known
        }
        grown, ours = {}, DjangoSaver()
        for one in self.found:
            place = one.ns, one.checkpoint_id
            if place not in known or place in followed:
                continue
            theirs = self._read(*place)
            stored = ours.get_tuple(_config(self.thread_id, *place))
            before = () if stored is None else stored.pending_writes or ()
            if any(is_new(write, before) for write in theirs.pending_writes or ()):
                grown[place] = theirs
        return grown

    def _refuse_unless_ours(self, thread: Thread, known: set[Place]) -> None:
        """Raise an error if the existing thread was not imported, has continued, or is running.

        ``known`` are the stored checkpoints of the thread. If the source doesn't contain all of
        them, the thread has continued since its import.
        """
        using = write_alias()
        if not AuditEntry.objects.using(using).filter(thread=thread, verb=IMPORT).exists():
            raise ThreadExistsError(
                f"Thread {self.thread_id!r} already exists and was not imported."
            )
        answered = Decision.objects.using(using).filter(interrupt__thread=thread).exists()
        has_gone_on = answered or thread.has_waiting
        if has_gone_on or not known <= {(one.ns, one.checkpoint_id) for one in self.found}:
            raise ThreadExistsError(
                f"Thread {self.thread_id!r} has continued in both systems since it was "
                "imported; it was left unchanged."
            )
        if thread.lease_until is not None and thread.lease_until > thread.now:
            raise RunStateError(
                f"Thread {self.thread_id!r} is being run by a worker.",
                state=Run.State.RUNNING,
                allowed=sorted(set(Run.State.values) - {Run.State.RUNNING}),
            )

    def _create(self, registered: RegisteredGraph) -> Thread:
        thread = Thread(thread_id=self.thread_id, graph=registered.name)
        try:
            thread.save(using=write_alias(), force_insert=True)
        except IntegrityError as error:
            raise ThreadExistsError(
                f"Thread {self.thread_id!r} was created during the import."
            ) from error
        return leases.lock_thread(pk=thread.pk)

    def _find_newest(self) -> StoredCheckpoint:
        roots = [one for one in self.found if not one.ns]
        if not roots:
            raise InvalidInputError("The thread has only subgraph checkpoints.", [])
        return roots[-1]

    def _find_graph(self, newest: StoredCheckpoint) -> RegisteredGraph:
        """Return the graph with which the thread resumes, and build it."""
        metadata = self.source.read_metadata(self.thread_id, "", newest.checkpoint_id)
        named = metadata.get(GRAPH_ID)
        if self.graph is None and not named:
            raise InvalidInputError("The thread's metadata doesn't name a graph. Use --graph.", [])
        if self.graph is not None and named in registry.list_names() and named != self.graph:
            raise InvalidInputError(f"The thread's metadata names another graph, {named!r}.", [])
        return registry.get_graph(self.graph or str(named))

    def _store(
        self,
        saver: DjangoSaver,
        new: Sequence[StoredCheckpoint],
        grown: Mapping[Place, CheckpointTuple],
    ) -> None:
        """Store the ``new`` checkpoints, each with the writes that led to it.

        ``grown`` are checkpoints that were imported before and have new pending writes. The pending
        writes of all checkpoints without a child are also stored.
        """
        versions: dict[Place, Mapping[str, Any]] = {}
        for place, found in grown.items():
            self.pending[place] = PendingStep.read(found, self.paths)
        for one in new:
            found = self._read(one.ns, one.checkpoint_id)
            place, parent = (one.ns, one.checkpoint_id), (one.ns, one.parent_id or "")
            self.stored_at[place] = datetime.fromisoformat(found.checkpoint["ts"])
            now = versions[place] = found.checkpoint["channel_versions"]
            before = self._read_versions(versions, parent)
            led_here = self.pending.pop(parent, None)
            saver.commit(
                Commit(
                    _config(self.thread_id, one.ns, one.parent_id),
                    () if led_here is None else led_here.writes,
                    found.checkpoint,
                    found.metadata,
                    {name: each for name, each in now.items() if before.get(name) != each},
                )
            )
            self.pending[place] = PendingStep.read(found, self.paths)
        number_interrupts(self.pending)
        for place, step in self.pending.items():
            saver.commit(Commit(_config(self.thread_id, *place), step.writes))

    def _read_versions(
        self, versions: Mapping[Place, Mapping[str, Any]], place: Place
    ) -> Mapping[str, Any]:
        """Return the channel versions of a checkpoint. ``place`` is its namespace and its id.

        ``versions`` are the versions that were already read. If the source doesn't contain the
        checkpoint, the result is empty.
        """
        if place in versions:
            return versions[place]
        if all((one.ns, one.checkpoint_id) != place for one in self.found):
            return {}
        return self._read(*place).checkpoint["channel_versions"]

    def _read(self, ns: str, checkpoint_id: str) -> CheckpointTuple:
        return self.source.read(self.thread_id, ns, checkpoint_id, self._find_channels(ns))

    def _find_channels(self, ns: str) -> Mapping[str, BaseChannel]:
        """Return the channels of the graph in a namespace, or {} if the graph isn't known."""
        if self.registered is None:
            return {}
        root = self.registered.graph
        if not ns:
            return root.channels
        return next((graph.channels for _, graph in iterate_subgraphs(root, ns, True)), {})

    def _date(self, thread: Thread) -> None:
        """Set the creation time of each imported checkpoint to its time in the source database."""
        rows = Checkpoint.objects.using(write_alias()).filter(thread=thread)
        dated = []
        for row in rows.only("ns", "checkpoint_id").iterator():
            if (stored_at := self.stored_at.get((row.ns, row.checkpoint_id))) is not None:
                row.created_at = to_stored(stored_at)
                dated.append(row)
        Checkpoint.objects.using(write_alias()).bulk_update(dated, ["created_at"], BATCH)

    def _start_run(
        self,
        thread: Thread,
        registered: RegisteredGraph,
        root: CheckpointTuple,
        saver: DjangoSaver,
    ) -> Run.State:
        """Create a run for the thread, with the state that the thread had in LangGraph."""
        using = write_alias()
        batch = WriteBatch(using)
        replaced = Run.objects.using(using).filter(thread=thread, state__in=Run.ACTIVE).first()
        if replaced is not None:
            cancel_run(batch, replaced, thread, interrupts=Interrupt.Status.SUPERSEDED)
        state, error = find_state(registered, saver, self.thread_id, self.paths)
        is_over = state not in Run.ACTIVE
        # Invalidate earlier leases, so that their owners can't store anything.
        Thread.objects.using(using).filter(pk=thread.pk).update(
            epoch=F("epoch") + 1,
            attempts=0,
            lease_owner="",
            lease_until=None,
            ended_at=Now() if is_over else None,
        )
        run = Run(
            thread=thread,
            number=Run.find_next_number(using, thread.pk),
            graph=registered.name,
            graph_version=registered.version,
            fingerprint=registered.fingerprint,
            events=registered.events,
            state=state,
            error=error,
            step=root.metadata.get("step", -1),
            started_by_label=audit.label_user(None),
            finished_at=Now() if is_over else None,
        )
        run.save(using=using, force_insert=True)
        run_events.append_event(batch, run, state, reason="imported")
        compatibility.store_structure(registered)
        audit.append(
            batch,
            thread,
            IMPORT,
            by=None,
            via="command",
            subject=str(run.pk),
            detail={"graph": run.graph, "checkpoint": root.checkpoint["id"], "state": str(state)},
        )
        if state == Run.State.QUEUED:
            dispatcher.enqueue(run.pk, batch)
        batch.run()
        return state


def _config(thread_id: str, ns: str, checkpoint_id: str | None) -> dict[str, Any]:
    ref = {"thread_id": thread_id, "checkpoint_ns": ns}
    if checkpoint_id is not None:
        ref["checkpoint_id"] = checkpoint_id
    return {"configurable": ref}
