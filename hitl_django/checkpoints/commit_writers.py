"""The ways in which a saver writes the rows of commits: fenced, batched, or direct."""

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
#: Writes rows that are encoded already, so that it may be called on another thread.
Write = Callable[[], object]

MAX_THREADS = 1000  # threads whose row a saver remembers


class Fence(Protocol):
    """Binds the commits of a worker to its lease, and gives the last of them the run's outcome."""

    def guard(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        """Require that the lease isn't lost; with an outcome it is released as well."""

    def flag_changed(self, batch: WriteBatch, interrupts: Sequence[str]) -> None:
        """Mark interrupts that were answered and have since been raised with other words."""

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        """Add the run's outcome and its interrupts; ``step`` is that of the new checkpoint."""


class CommitWriter(ABC):
    """A way to write the rows of commits to one thread; ``lease`` is that of a commit."""

    #: Whether stored answers stay as they are, and whether nothing of the thread is stored yet.
    keeps_answers = is_new_thread = False

    def __init__(self, using: str) -> None:
        self._using = using

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        """Return whether a commit may be written by another connection, beside the run."""
        return False

    def may_continue(self) -> bool:
        """Return whether a later commit may build upon rows that are read or written now."""
        return not connections[self._using].in_atomic_block

    @abstractmethod
    def get_epoch(self, lease: LocalThreadLease | None) -> int:
        """Return the epoch of the rows."""

    @abstractmethod
    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        """Return the function that writes the rows of commits in one transaction."""


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
    """Writes the commits of a worker's run in transactions of their own, behind its fence."""

    keeps_answers = True

    def __init__(
        self, using: str, thread: ThreadKey, append_events: AppendEvents | None, fence: Fence
    ) -> None:
        super().__init__(using, thread, append_events)
        self._fence = fence
        #: OS threads within DjangoSaver.together, of whose transaction a commit is a part.
        self.together: set[int] = set()

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        return True

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        batch, outcome = WriteBatch(self._using), _find_outcome(rows, commits)
        # The fence comes first: it locks the thread's row, and a worker that no longer has the
        # thread learns so before having written anything.
        self._fence.guard(batch, outcome)
        self._append_chunks(commits, batch)
        if outcome is not None:
            self._fence.settle(batch, outcome, _find_step(commits))
        if changed := [interrupt for each in rows for interrupt in each.changed]:
            self._fence.flag_changed(batch, changed)
        _add_rows(rows, self._thread.pk, batch)
        return partial(batch.commit, durable=get_ident() not in self.together)


class BatchedWriter(_BoundWriter):
    """Writes commits as a part of a service's transaction.

    With a ``batch``, which is of a thread that has nothing stored yet, they are written by that.
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
        return True  # the saver is made for the one transaction, and undone with it

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        batch = WriteBatch(self._using) if self._batch is None else self._batch
        self._append_chunks(commits, batch)
        _add_rows(rows, self._thread.pk, batch)
        if batch is self._batch:
            return _do_nothing
        # The transaction stands or falls as one: a savepoint would only cost two round trips.
        return partial(batch.commit, savepoint=False)


class DirectWriter(CommitWriter):
    """Writes commits to any thread, makes its row, and binds them to the lease of a direct call."""

    def __init__(self, using: str) -> None:
        super().__init__(using)
        self._keys: dict[str, int] = {}  # thread ids that were committed to, and their rows

    def get_epoch(self, lease: LocalThreadLease | None) -> int:
        return lease.epoch if isinstance(lease, DirectCallLease) else 0

    def may_defer(self, lease: LocalThreadLease | None) -> bool:
        return isinstance(lease, DirectCallLease) and lease.in_force

    def forget_thread(self, thread_id: str) -> None:
        """Forget the row of a thread."""
        self._keys.pop(thread_id, None)

    def plan(self, rows: Sequence[CommitRows], commits: Sequence[Commit]) -> Write:
        lease, add_rows = commits[-1].lease, partial(_add_rows, rows)
        if isinstance(lease, DirectCallLease):
            return partial(lease.write, add_rows, ends=_find_outcome(rows, commits) is not None)
        return partial(self._write, add_rows, rows[0].ref.thread_id)

    def _write(self, add_rows: Callable[[int, WriteBatch], None], thread_id: str) -> None:
        # What a caller's transaction sees may be undone with it, and the row's key may then go to
        # another thread; so only what a transaction of this saver's own has committed is kept.
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
    """Return the outcome of the run, which only commits of the root graph have."""
    return None if rows[0].ref.ns else commits[-1].outcome


def _find_step(commits: Sequence[Commit]) -> int | None:
    """Return the step of the checkpoint that is stored, where one is."""
    for commit in commits:
        if commit.checkpoint is not None and commit.metadata is not None:
            return commit.metadata.get("step")
    return None


def _do_nothing() -> None:
    """Write nothing: whoever has the batch does."""
