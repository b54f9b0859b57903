"""Writers of commits: with a worker's lease, as part of a batch, or directly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Protocol

from django.db import connections

from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.savers.checkpoint import Commit, Outcome
from hitl_django.engine.savers.thread_lease import LocalThreadLease
from hitl_django.engine.types import Chunk
from hitl_django.leases import ThreadKey, thread_rows
from hitl_django.leases.direct_call_lease import DirectCallLease
from hitl_django.models import Thread

from .commit_rows import CommitRows

AppendEvents = Callable[[WriteBatch, Sequence[Chunk]], None]
#: A function that writes encoded rows; any OS thread may call it.
Write = Callable[[], object]

MAX_THREADS = 1000  # The maximum number of cached thread keys.


class Fence(Protocol):
    """The check of a worker's lease in each commit of a run."""

    def guard(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        """Make the batch fail if the worker has lost its lease.

        With an outcome, also release the lease.
        """

    def flag_changed(self, batch: WriteBatch, interrupt_ids: Sequence[str]) -> None:
        """On commit of the batch, store that these interrupts have changed since their decision."""

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        """Add the run's outcome and interrupts to the batch.

        ``step`` is the super-step of the new checkpoint.
        """


class CommitWriter(ABC):
    """Base class of objects that write the rows of commits."""

    #: ``keeps_answers``: stored resume values are kept. ``is_new_thread``: the thread has no stored
    #: data.
    keeps_answers = is_new_thread = False

    def __init__(self, using: str) -> None:
        self._using = using

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        """Return whether a commit may be stored over another connection while the run continues."""
        return False

    def may_continue(self) -> bool:
        """Return whether values that are read or written now may be cached for later commits.

        In a transaction of the caller, the result is false, because of a possible rollback.
        """
        return not connections[self._using].in_atomic_block

    @abstractmethod
    def get_epoch(self, lease: LocalThreadLease | None) -> int:
        """Return the epoch to store in the rows. ``lease`` is the lease of a direct call."""

    @abstractmethod
    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        """Return a function that writes the rows of the commits in one transaction."""


class _BoundWriter(CommitWriter):
    def __init__(self, using: str, thread: ThreadKey, append_events: AppendEvents | None) -> None:
        super().__init__(using)
        self._thread, self._append_events = thread, append_events

    def get_epoch(self, lease: LocalThreadLease | None) -> int:
        return self._thread.epoch

    def _append_chunks(self, commits: Sequence[Commit], batch: WriteBatch) -> None:
        if self._append_events is not None:
            for commit in commits:
                if commit.chunks:
                    self._append_events(batch, commit.chunks)


class FencedWriter(_BoundWriter):
    """A writer for the commits of a run on a worker. Each commit checks the worker's lease.

    With ``durable``, each commit is a separate transaction. Otherwise, the commits are part of the
    caller's transaction.
    """

    keeps_answers = True

    def __init__(
        self,
        using: str,
        thread: ThreadKey,
        append_events: AppendEvents | None,
        fence: Fence,
        *,
        durable: bool,
    ) -> None:
        super().__init__(using, thread, append_events)
        self._fence, self._durable = fence, durable
        #: OS threads inside DjangoSaver.together, whose commits are part of that transaction.
        self.together: set[int] = set()

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        return True

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        batch, outcome = WriteBatch(self._using), _find_outcome(rows, commits)
        # The fence comes first. It locks the thread's row, so a worker that has lost the lease
        # fails before it writes.
        self._fence.guard(batch, outcome)
        self._append_chunks(commits, batch)
        if outcome is not None:
            self._fence.settle(batch, outcome, _find_step(commits))
        if changed := [interrupt for each in rows for interrupt in each.changed]:
            self._fence.flag_changed(batch, changed)
        _add_rows(rows, self._thread.pk, batch)
        return partial(batch.commit, durable=self._durable and get_ident() not in self.together)


class BatchedWriter(_BoundWriter):
    """A writer for commits that are part of a service's transaction.

    With ``batch``, the thread must have no stored data, and the rows are added to the batch.
    """

    def __init__(
        self,
        using: str,
        thread: ThreadKey,
        append_events: AppendEvents | None,
        batch: WriteBatch | None,
    ) -> None:
        super().__init__(using, thread, append_events)
        self._batch, self.is_new_thread = batch, batch is not None

    def may_continue(self) -> bool:
        return True  # The saver is used for a single transaction only.

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        batch = WriteBatch(self._using) if self._batch is None else self._batch
        self._append_chunks(commits, batch)
        _add_rows(rows, self._thread.pk, batch)
        if batch is self._batch:
            return _do_nothing
        # No savepoint is needed, because the transaction commits or rolls back as a whole.
        return partial(batch.commit, savepoint=False)


class DirectWriter(CommitWriter):
    """A writer for commits outside of workers and services.

    The writer creates the rows of new threads, and checks the lease of a direct graph call.
    """

    def __init__(self, using: str) -> None:
        super().__init__(using)
        self._keys: dict[str, int] = {}  # The keys of threads' rows, by thread id.

    def get_epoch(self, lease: LocalThreadLease | None) -> int:
        return lease.epoch if isinstance(lease, DirectCallLease) else 0

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        return isinstance(lease, DirectCallLease) and lease.in_force

    def forget_thread(self, thread_id: str) -> None:
        """Remove a thread from the cache."""
        self._keys.pop(thread_id, None)

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        lease, add_rows = commits[-1].lease, partial(_add_rows, rows)
        if isinstance(lease, DirectCallLease):
            return partial(lease.write, add_rows, ends=_find_outcome(rows, commits) is not None)
        return partial(self._write, add_rows, rows[0].ref.thread_id)

    def _write(self, add_rows: Callable[[int, WriteBatch], None], thread_id: str) -> None:
        # Rows in a caller's transaction may be rolled back and their keys reused. Only keys
        # committed by this saver are therefore cached.
        own = self.may_continue()
        pk = self._keys.get(thread_id) if own else None
        if pk is None:
            found = thread_rows.find_thread(self._using, thread_id)
            pk = None if found is None else found.pk
        if pk is None:
            pk = thread_rows.begin_thread(self._using, Thread(thread_id=thread_id), add_rows)
        else:
            batch = WriteBatch(self._using)
            add_rows(pk, batch)
            batch.commit()
        if own:
            if len(self._keys) >= MAX_THREADS:
                self._keys.clear()
            self._keys[thread_id] = pk


def _add_rows(rows: Sequence[CommitRows], pk: int, batch: WriteBatch) -> None:
    for each in rows:
        each.write(pk, batch)


def _find_outcome(rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Outcome | None:
    """Return the outcome of the commits' run, or None if the commits belong to a subgraph."""
    return None if rows[0].ref.ns else commits[-1].outcome


def _find_step(commits: Sequence[Commit]) -> int | None:
    for commit in commits:
        if commit.checkpoint is not None and commit.metadata is not None:
            return commit.metadata.get("step")
    return None


def _do_nothing() -> None:
    """Do nothing. The rows are written later, with the caller's batch."""
