"""DjangoSaver: the checkpoint saver that the engine calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import get_ident
from typing import Any

from asgiref.sync import sync_to_async
from django.db import IntegrityError, OperationalError, connections, router, transaction

from hitl_django import models
from hitl_django.db.commit_threads import commit_threads
from hitl_django.db.connections import OpenTransactionRefusal, close_connections
from hitl_django.db.outages import is_database_lost
from hitl_django.db.retry import is_conflict, retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.constants import KEYED, NULL_TASK_ID, RESUME
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    TaskWrites,
    Version,
)
from hitl_django.engine.savers.pruning import KEEP_LATEST, check_prune
from hitl_django.engine.savers.shared_values import SharedValues
from hitl_django.engine.savers.thread_lease import Stream
from hitl_django.engine.task.task_status import record_answer, remove_answer
from hitl_django.engine.types import RunnableConfig
from hitl_django.leases import ThreadKey
from hitl_django.leases.direct_call_lease import DirectCallLease, take_thread

from . import maintenance, queries
from .checkpoint_pages import read_page
from .checkpoint_reader import decode_checkpoint, decode_checkpoints
from .codec import codec, unpack
from .commit_rows import ANSWERS, KEYED_ANSWERS, CommitRows
from .commit_writers import (
    MAX_THREADS,
    AppendEvents,
    BatchedWriter,
    CommitWriter,
    DirectWriter,
    Fence,
    FencedWriter,
)
from .coordinates import CheckpointRef
from .queries import AnswersRow, CheckpointRow
from .write_cache import CachedNamespace, WriteCache

PAGE_SIZE = 100  # The number of checkpoints that ``list`` reads per page.


class DjangoSaver(BaseCheckpointSaver):
    """A saver that stores threads in Django's database.

    Without arguments (``graph.compile(checkpointer=DjangoSaver())``), the saver accepts any string
    as a thread id and creates the thread's row. Each run takes a lease on its thread.

    Args:
        thread: the only thread that the saver may access. The thread's row must exist.
        fence: the check of a worker's lease in each commit.
        batch: receives the rows of commits, for a thread without stored data.
        append_events: adds the stream chunks of a commit to the run's events.
        newest: the rows of the thread's newest checkpoint, used for the first read.
        durable: whether each commit of a worker must be a separate transaction.
    """

    def __init__(
        self,
        thread: ThreadKey | None = None,
        fence: Fence | None = None,
        batch: WriteBatch | None = None,
        append_events: AppendEvents | None = None,
        newest: Sequence[CheckpointRow] | None = None,
        *,
        durable: bool = True,
    ) -> None:
        self.thread, self._newest = thread, newest
        self.using = router.db_for_write(models.Checkpoint)
        self._cache = WriteCache(MAX_THREADS)
        self._direct = DirectWriter(self.using)
        self._fenced: FencedWriter | None = None
        self._bound: CommitWriter = self._direct
        if thread is not None and fence is not None:
            self._bound = self._fenced = FencedWriter(
                self.using, thread, append_events, fence, durable=durable
            )
        elif thread is not None:
            self._bound = BatchedWriter(self.using, thread, append_events, batch)

    around_call = OpenTransactionRefusal
    leave_thread = staticmethod(close_connections)

    def is_storage_error(self, error: BaseException) -> bool:
        """Return whether the error means that the connection to the runs' database was lost."""
        return is_database_lost(error, self.using)

    def serves_threads(self) -> bool:
        return not connections[self.using].in_atomic_block

    @retry_on_conflict
    def together(
        self, act: Callable[[], Any], commit_of: Callable[[Any], Commit]
    ) -> tuple[Any, BaseException | None]:
        """Call ``act`` and store the commit that ``commit_of`` builds, in one transaction.

        ``commit_of`` receives the result of ``act``. Return this result and None or, if ``act``
        raises an error, None and the error. After an error, nothing is written. After a database
        conflict, ``act`` is called again.
        """
        thread = get_ident()
        together: set[int] = set() if self._fenced is None else self._fenced.together
        try:
            with transaction.atomic(self.using, durable=self._fenced is not None):
                result = _call(act, self.using)
                together.add(thread)
                try:
                    self.commit(commit_of(result))
                finally:
                    together.discard(thread)
        except _ActError as stopped:
            return None, stopped.error
        return result, None

    # Writing.

    def lease_thread(self, thread_id: str, stream: Stream) -> DirectCallLease | None:
        """Take the lease on a thread for a direct graph call.

        Return None if a worker or a service created the saver for this thread. The worker or the
        service already has the right to write to the thread.
        """
        if self.thread is not None and self.thread.thread_id == thread_id:
            return None
        return take_thread(self.using, thread_id, stream)

    def commit(self, commit: Commit) -> None:
        """Store a commit, such as the result of a super-step, in one transaction."""
        self.commit_all((commit,))

    def commit_all(self, commits: Sequence[Commit]) -> None:
        """Store several commits of one thread in one transaction."""
        commit = commits[0]
        refs = [CheckpointRef.from_config(each.config) for each in commits]
        writer = self._find_writer(refs[0])
        rows = self._build_rows(refs, commits, writer)
        try:
            writer.plan(rows, commits)()
        except IntegrityError:
            if writer is not self._direct or commit.lease is not None:
                raise
            # Another process has deleted or created the thread's row since the row was looked up.
            self._forget_thread(refs[0].thread_id)
            rows = self._build_rows(refs, commits, writer)
            writer.plan(rows, commits)()
        self._cache_rows(rows)

    def begin_commit(self, commit: Commit) -> Future[None] | None:
        """Start to store a commit over another connection, on another OS thread.

        Return None if this is impossible: on SQLite, because it has only one writer, and in a
        transaction, because other connections don't see its uncommitted changes.
        """
        if connections[self.using].vendor == "sqlite" or not self.serves_threads():
            return None
        ref = CheckpointRef.from_config(commit.config)
        writer = self._find_writer(ref)
        if not writer.may_defer(commit.lease):
            return None
        rows = self._build_rows((ref,), (commit,), writer)
        write = writer.plan(rows, (commit,))

        def store() -> None:
            write()
            self._cache_rows(rows)

        return commit_threads.submit(store)

    def _find_writer(self, ref: CheckpointRef) -> CommitWriter:
        return self._bound if self._is_bound_to(ref) else self._direct

    def _build_rows(
        self, refs: Sequence[CheckpointRef], commits: Sequence[Commit], writer: CommitWriter
    ) -> Sequence[CommitRows]:
        self._newest = None
        return [
            self._commit_rows(ref, commit, writer)
            for ref, commit in zip(refs, commits, strict=True)
        ]

    def _cache_rows(self, rows: Sequence[CommitRows]) -> None:
        for each in rows:
            place = each.ref.thread_id, each.ref.ns
            self._cache.add(*place, each.grown, each.base, each.without_inline)

    def _commit_rows(self, ref: CheckpointRef, commit: Commit, writer: CommitWriter) -> CommitRows:
        known = self._cache.get(ref.thread_id, ref.ns) if writer.may_continue() else None
        epoch = writer.get_epoch(commit.lease)
        rows = CommitRows(ref, epoch, known, SharedValues(codec, commit))
        ends = commit.checkpoint is not None and ref.checkpoint_id is not None
        for task in commit.writes:
            rows.add_writes(task, answers_stand=writer.keeps_answers, ends_step=ends)
        if commit.checkpoint is not None:
            rows.add_checkpoint(
                commit.checkpoint,
                commit.metadata or {},
                commit.new_versions or {},
                commit.added,
                is_last=commit.outcome is not None,
            )
        for channel, grown in (commit.grown or {}).items():
            rows.add_grown(channel, grown)
        return rows

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
    ) -> RunnableConfig:
        """Store a checkpoint as a child of the checkpoint that ``config`` selects."""
        self.commit(
            Commit(config, checkpoint=checkpoint, metadata=metadata, new_versions=new_versions)
        )
        return CheckpointRef.from_config(config).config(checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task of the checkpoint that ``config`` selects."""
        self.commit(Commit(config, writes=[TaskWrites(task_id, task_path, writes)]))

    def put_answer(
        self,
        interrupt: models.Interrupt,
        value: Any,
        batch: WriteBatch,
        so_far: AnswersRow | None = None,
    ) -> None:
        """Add a resume value to the interrupt's task, for the next execution of the task.

        The rows are added to the caller's ``batch``. Concurrent resume values of one task must not
        overwrite each other. The caller therefore locks the thread, or passes the existing resume
        values as ``so_far``: the columns ``queries.answer_columns()``, read together with the
        interrupt. With ``so_far``, the rows are written only if the task's resume values still
        equal ``so_far``.
        """
        assert self.thread is not None
        ref = CheckpointRef(self.thread.thread_id, interrupt.checkpoint_ns, interrupt.checkpoint_id)
        task = TaskWrites(interrupt.task_id, interrupt.task_path, [])
        if interrupt.kind == models.Interrupt.Kind.BREAKPOINT:
            task = TaskWrites(NULL_TASK_ID, "", [(RESUME, value)])
        elif interrupt.key is not None:
            keyed = self._read_resume_values(ref, interrupt, so_far) or {}
            task.writes = [(KEYED, {**keyed, interrupt.key: value})]
        else:
            answers = self._read_resume_values(ref, interrupt, so_far) or []
            task.writes = [(RESUME, record_answer(answers, interrupt.index, value))]
        self._write_controls(ref, task, batch)

    def drop_answer(self, interrupt: models.Interrupt) -> Any:
        """Remove the resume value that the interrupt's task has rejected, and all later values.

        Return the removed value, or None if the task has no such value. The caller must have locked
        the thread in its transaction.
        """
        assert self.thread is not None
        ref = CheckpointRef(self.thread.thread_id, interrupt.checkpoint_ns, interrupt.checkpoint_id)
        if interrupt.key is not None:
            keyed = self._read_resume_values(ref, interrupt) or {}
            rest = {key: given for key, given in keyed.items() if key != interrupt.key}
            dropped = keyed.get(interrupt.key)
            left: tuple[str, Any] = (KEYED, rest)
        else:
            answers = self._read_resume_values(ref, interrupt) or []
            dropped = next(iter(answers[interrupt.index :]), None)
            left = (RESUME, answers[: interrupt.index])
        batch = WriteBatch(self.using)
        self._write_controls(ref, TaskWrites(interrupt.task_id, interrupt.task_path, [left]), batch)
        batch.run()
        return dropped

    def withdraw_answer(self, interrupt: models.Interrupt) -> None:
        """Remove the interrupt's resume value before the task receives the value.

        Other resume values of the task remain. The caller must have locked the thread in its
        transaction.
        """
        assert self.thread is not None
        ref = CheckpointRef(self.thread.thread_id, interrupt.checkpoint_ns, interrupt.checkpoint_id)
        task_id, slot = interrupt.task_id, ANSWERS
        left: tuple[str, Any] | None = None
        if interrupt.kind == models.Interrupt.Kind.BREAKPOINT:
            task_id = NULL_TASK_ID
        elif interrupt.key is not None:
            slot = KEYED_ANSWERS
            keyed = self._read_resume_values(ref, interrupt) or {}
            rest = {key: given for key, given in keyed.items() if key != interrupt.key}
            left = (KEYED, rest) if rest else None
        else:
            answers = remove_answer(self._read_resume_values(ref, interrupt) or [], interrupt.index)
            left = (RESUME, answers) if answers else None
        if left is not None:
            batch = WriteBatch(self.using)
            self._write_controls(ref, TaskWrites(task_id, interrupt.task_path, [left]), batch)
            batch.run()
            return
        rows = models.PendingWrite.objects.using(self.using).filter(thread=self.thread.pk)
        at = {"ns": ref.ns, "checkpoint_id": ref.checkpoint_id}
        rows.filter(**at, task_id=task_id, slot=slot).delete()

    def _write_controls(self, ref: CheckpointRef, task: TaskWrites, batch: WriteBatch) -> None:
        assert self.thread is not None
        rows = CommitRows(ref, self.thread.epoch)
        rows.add_writes(task)
        rows.write(self.thread.pk, batch)

    @retry_on_conflict
    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's history.

        If the thread has runs, the thread's row remains for the audit log.
        """
        with transaction.atomic(using=self.using):
            for model in (models.PendingWrite, models.ChannelBlob, models.Checkpoint):
                rows = model._default_manager.using(self.using)
                rows.filter(thread__thread_id=thread_id).delete()
            threads = models.Thread.objects.using(self.using)
            threads.filter(thread_id=thread_id, runs__isnull=True).delete()
        self._forget_thread(thread_id)

    def _forget_thread(self, thread_id: str) -> None:
        self._direct.forget_thread(thread_id)
        self._cache.forget_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the whole history of a thread to another thread, in one transaction.

        Raises:
            ThreadNotFound: the source has no history.
            ValueError: the target already has a history.
        """
        maintenance.copy_history(self.using, str(source_thread_id), str(target_thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs. Each thread is a separate transaction.

        A checkpoint remains if it is needed to restore a LangGraph DeltaChannel of a checkpoint
        that isn't deleted.

        Raises:
            RunStateError: a run is active.
        """
        maintenance.delete_runs(self.using, run_ids)
        self._cache.clear()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = KEEP_LATEST) -> None:
        """Delete all checkpoints of threads except the newest checkpoint of each namespace.

        An older checkpoint also remains if it has pending interrupts, or if it is needed to restore
        a LangGraph DeltaChannel of the newest checkpoint. With the strategy "delete", all
        checkpoints are deleted. Each thread is a separate transaction that locks the thread.

        Raises:
            RunStateError: a thread has an active run and the strategy is "delete".
        """
        wanted = check_prune(thread_ids, strategy)
        if strategy == KEEP_LATEST:
            maintenance.prune_to_latest(self.using, wanted)
            self._cache.clear()
            return
        for thread_id in wanted:
            maintenance.refuse_active_runs(self.using, thread__thread_id=thread_id)
        for thread_id in wanted:
            self._delete_at_rest(thread_id)

    @retry_on_conflict
    def _delete_at_rest(self, thread_id: str) -> None:
        with transaction.atomic(using=self.using):
            # A run may have started since the check.
            maintenance.refuse_active_thread(self.using, thread_id)
            self.delete_thread(thread_id)

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` selects, by default the newest of the namespace.

        Return None if the checkpoint doesn't exist. For a small state, one query is sufficient.
        Larger values need one more query, or up to three if lists or dicts are stored as deltas. A
        state with many channels needs one more query. An older checkpoint needs one or two more
        queries for its writes.
        """
        ref = CheckpointRef.from_config(config)
        writer = self._find_writer(ref)
        if writer.is_new_thread:
            return None
        cached = CachedNamespace()
        is_newest = ref.checkpoint_id is None
        found = decode_checkpoint(self._read_rows(ref), self.using, cached, has_newest=is_newest)
        if writer.may_continue():
            self._cache.replace(ref.thread_id, ref.ns, cached)
        return found

    def _read_rows(self, ref: CheckpointRef) -> Sequence[CheckpointRow]:
        newest, self._newest = self._newest, None
        where = {"thread_id": ref.thread_id, "ns": ref.ns}
        if ref.checkpoint_id is not None:
            where["checkpoint_id"] = ref.checkpoint_id
            return queries.CHECKPOINT.run(self.using, **where)
        if self.thread is not None and self._is_bound_to(ref):
            if newest is not None and not ref.ns:
                return newest
            return queries.NEWEST_BY_KEY.run(self.using, thread=self.thread.pk, ns=ref.ns)
        return queries.NEWEST.run(self.using, **where)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the selected checkpoints, newest first. Each page of rows needs one query."""
        left, last = limit, None
        while left is None or left > 0:
            size = PAGE_SIZE if filter or left is None else min(PAGE_SIZE, left)
            page = read_page(self.using, config, before, size, last)
            begins = last is None and before is None and not _is_addressed(config)
            for found in decode_checkpoints(page, self.using, filter, has_newest=begins):
                yield found
                if left is not None:
                    left -= 1
                    if not left:
                        return
            if len(page) < size:
                return
            last = page[-1]

    def _read_resume_values(
        self,
        ref: CheckpointRef,
        interrupt: models.Interrupt,
        so_far: AnswersRow | None = None,
    ) -> Any:
        stored = self._read_answers_row(ref, interrupt) if so_far is None else so_far
        if stored is None or stored.data is None:
            return None
        [[_, value]] = unpack(stored.data, stored.digest, f"writes of task {interrupt.task_id}")
        return value

    def _read_answers_row(
        self, ref: CheckpointRef, interrupt: models.Interrupt
    ) -> AnswersRow | None:
        assert self.thread is not None
        rows = queries.CONTROL.run(
            self.using,
            thread=self.thread.pk,
            ns=ref.ns,
            checkpoint_id=ref.checkpoint_id,
            task_id=interrupt.task_id,
            slot=ANSWERS if interrupt.key is None else KEYED_ANSWERS,
        )
        return rows[0] if rows else None

    def _is_bound_to(self, ref: CheckpointRef) -> bool:
        return self.thread is not None and self.thread.thread_id == ref.thread_id

    # Django's connections belong to OS threads. The async methods use the single OS thread that
    # asgiref provides for database access. Transactions therefore work, and tests see their own
    # data.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await sync_to_async(self.get_tuple, thread_sensitive=True)(config)

    async def acommit(self, commit: Commit) -> None:
        await sync_to_async(self.commit, thread_sensitive=True)(commit)

    async def acommit_all(self, commits: Sequence[Commit]) -> None:
        await sync_to_async(self.commit_all, thread_sensitive=True)(commits)

    async def acall(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on the OS thread that the async methods use."""
        return await sync_to_async(function, thread_sensitive=True)(*args)


class _ActError(BaseException):
    """A wrapper of an error raised by a node's code, to distinguish it from errors of the saver."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _call(act: Callable[[], Any], using: str) -> Any:
    try:
        return act()
    except BaseException as error:
        in_conflict = isinstance(error, OperationalError) and is_conflict(error)
        if in_conflict or is_database_lost(error, using):
            raise
        raise _ActError(error) from error


def _is_addressed(config: RunnableConfig | None) -> bool:
    return ((config or {}).get("configurable") or {}).get("checkpoint_id") is not None
