"""Copying, pruning and deleting of stored history.

Each operation processes one thread at a time, in a transaction that locks the thread's row. Every
commit to the thread also needs this lock, so a commit never sees a partial deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connections, models, transaction
from django.db.models.functions import Substr

from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.engine.savers.pruning import (
    DELTA_COUNTERS,
    CheckpointKey,
    add_ancestors,
    find_latest,
    keep_latest,
)
from hitl_django.errors import RunStateError
from hitl_django.models import ChannelBlob, Checkpoint, Interrupt, PendingWrite, Run, Thread

from . import queries, value_deltas, version_deltas
from .checkpoint_reader import read_bases
from .codec import codec
from .inline_writes import verify_payloads

BATCH = 1000  # The number of rows of one DELETE, and of checkpoints read at a time.

HISTORY = (Checkpoint, PendingWrite, ChannelBlob)


@retry_on_conflict
def copy_history(using: str, source: str, target: str) -> None:
    """Copy all rows of a thread to another thread. The database copies the rows.

    Raises:
        ThreadNotFound: the thread ``source`` has no history.
        ValueError: the thread ``target`` already has a history.
    """
    with transaction.atomic(using=using):
        if not Checkpoint.objects.using(using).filter(thread__thread_id=source).exists():
            raise ThreadNotFound(f"Thread {source!r} has no history to copy.")
        Thread.objects.using(using).get_or_create(thread_id=target)
        rows = _lock(using, thread_id__in=[source, target])
        if Checkpoint.objects.using(using).filter(thread=rows[target]).exists():
            raise ValueError(f"Thread {target!r} already has a history.")
        for model in HISTORY:
            _copy_rows(using, model, rows[source], rows[target])


def prune_to_latest(using: str, thread_ids: Sequence[str]) -> None:
    """Delete the history of threads, except the data that the newest checkpoints need.

    Each thread is a separate transaction.
    """
    for thread_id in thread_ids:
        _delete_superseded(using, thread_id)


@retry_on_conflict
def _delete_superseded(using: str, thread_id: str) -> None:
    with transaction.atomic(using=using):
        thread = _lock(using, thread_id__in=[thread_id]).get(thread_id)
        if thread is not None:
            history = _History(using, thread)
            history.keep_only(history.to_keep())


def delete_runs(using: str, run_ids: Sequence[str]) -> None:
    """Delete the checkpoints that the given runs stored, in every thread."""
    wanted = list(dict.fromkeys(map(str, run_ids)))
    runs = [run for run in wanted if _is_uuid(run)]
    refuse_active_runs(using, pk__in=runs)
    threads: dict[int, set[CheckpointKey]] = {}
    for thread, key in _find_checkpoints(using, wanted):
        threads.setdefault(thread, set()).add(key)
    for thread, keys in threads.items():
        _delete_checkpoints(using, thread, keys, runs)


@retry_on_conflict
def _delete_checkpoints(
    using: str, thread: int, keys: set[CheckpointKey], runs: Sequence[str]
) -> None:
    with transaction.atomic(using=using):
        _lock(using, pk=thread)
        # A run may have been retried since the check.
        refuse_active_runs(using, pk__in=runs, thread=thread)
        history = _History(using, thread)
        history.keep_only(history.checkpoints.keys() - keys)


def refuse_active_thread(using: str, thread_id: str) -> None:
    """Lock a thread, and raise RunStateError if it has an active run.

    No new run can start until the caller's transaction ends.
    """
    _lock(using, thread_id__in=[thread_id])
    refuse_active_runs(using, thread__thread_id=thread_id)


def refuse_active_runs(using: str, **which: Any) -> None:
    """Raise RunStateError if one of the selected runs is active.

    ``which`` contains lookups that select runs, as for ``QuerySet.filter``.
    """
    live = Run.objects.using(using).filter(state__in=Run.NOT_ENDED, **which)
    found = live.values_list("pk", "state", named=True).first()
    if found is not None:
        raise RunStateError(
            f"Run {found.pk} is {found.state} and still needs its history; it was kept.",
            state=found.state,
            allowed=Run.ENDED,
        )


class _History:
    """The keys of all stored checkpoints, values and writes of a locked thread."""

    def __init__(self, using: str, thread: int) -> None:
        self.using, self.thread = using, thread
        rows = self._rows(Checkpoint).values_list("ns", "checkpoint_id", "pk", named=True)
        self.checkpoints: dict[CheckpointKey, int] = {
            (row.ns, row.checkpoint_id): row.pk for row in rows.iterator()
        }

    def to_keep(self) -> set[CheckpointKey]:
        """Return the keys of the checkpoints that must not be deleted.

        These are the newest checkpoint of each namespace, and all checkpoints with pending
        interrupts. Exception: the newest checkpoint of a namespace may be deleted if no task reads
        the namespace again (``keep_latest``).
        """
        heads = find_latest(self.checkpoints)
        metadata = {
            row.ns: (row.checkpoint_id, codec.decode(bytes(row.metadata)))
            for row in self._chosen(heads.items(), "ns", "checkpoint_id", "metadata")
        }
        roots = {checkpoint_id for ns, checkpoint_id in self.checkpoints if not ns}
        pending = Interrupt.objects.using(self.using).filter(
            thread=self.thread, status=Interrupt.Status.PENDING
        )
        pending_keys = pending.values_list("checkpoint_ns", "checkpoint_id")
        return keep_latest(metadata, roots) | (set(pending_keys) & self.checkpoints.keys())

    def keep_only(self, kept: set[CheckpointKey]) -> None:
        """Delete all data except the checkpoints in ``kept`` and the data that they need."""
        kept = self._add_ancestors(kept)
        checkpoints = [pk for key, pk in self.checkpoints.items() if key not in kept]
        named, orphans = set(), []
        for row, names in self._read_value_keys(kept):
            named |= {(row.ns, *name) for name in names}
            if row.parent_id is not None and (row.ns, row.parent_id) not in kept:
                orphans.append(row.pk)
        for part in _batches(orphans):
            self._rows(Checkpoint).filter(pk__in=part).update(parent_id=None)
        writes = self._rows(PendingWrite).values_list("pk", "ns", "checkpoint_id", named=True)
        unread = [row.pk for row in writes.iterator() if (row.ns, row.checkpoint_id) not in kept]
        unnamed = self._find_unreferenced(named)
        for model, keys in (
            (Checkpoint, checkpoints),
            (PendingWrite, unread),
            (ChannelBlob, unnamed),
        ):
            for part in _batches(keys):
                self._rows(model).filter(pk__in=part).delete()

    def _add_ancestors(self, kept: set[CheckpointKey]) -> set[CheckpointKey]:
        """Return the checkpoints in ``kept``, and the ancestors that their DeltaChannels need."""
        columns = ("ns", "checkpoint_id", "parent_id", "metadata")
        parents: dict[CheckpointKey, str | None] = {}
        missing: dict[CheckpointKey, set[str]] = {}
        for row in self._rows(Checkpoint).values_list(*columns, named=True).iterator():
            key = row.ns, row.checkpoint_id
            parents[key] = row.parent_id
            if counters := codec.decode(bytes(row.metadata)).get(DELTA_COUNTERS):
                missing[key] = set(counters)
        if not missing:
            return set(kept)
        for row, names in self._read_value_keys(kept & missing.keys()):
            # A channel that was never written has a counter but no version.
            key = row.ns, row.checkpoint_id
            missing[key] &= {channel for channel, *_ in names}
        return add_ancestors(kept, parents, missing)

    def _read_value_keys(self, kept: set[CheckpointKey]) -> Iterator[tuple[Any, set[Any]]]:
        """Yield the row of each checkpoint in ``kept``, with the keys of the rows it refers to.

        A checkpoint refers to the rows of its channel values, and to the base of its channel
        versions.
        """
        columns = ("pk", "ns", "checkpoint_id", "parent_id", *queries.PAYLOAD_COLUMNS)
        for part in _batches(kept):
            records: list[tuple[Any, ...]] = []
            named: dict[str, set[version_deltas.RowKey]] = {}
            for row in self._chosen(part, *columns):
                record = codec.decode(verify_payloads(row, f"row {row.pk}").data)
                base = version_deltas.base_key(record)
                records.append((row, record, base))
                if base is not None:
                    named.setdefault(row.ns, set()).add(base)
            bases = {
                ns: read_bases(self.using, self.thread, ns, keys) for ns, keys in named.items()
            }
            for row, record, base in records:
                head = version_deltas.restore_head(record, bases.get(row.ns, {}))
                names = {*head["channel_versions"].items()}
                yield row, names if base is None else names | {base}

    def _find_unreferenced(self, named: set[tuple[str, str, int]]) -> Sequence[int]:
        """Return the primary keys of the values that can be deleted.

        A value must be kept if its key is in ``named``, or if it is continued by a delta that must
        be kept.
        """
        head = Substr("data", 1, value_deltas.HEAD.size, output_field=models.BinaryField())
        rows = self._rows(ChannelBlob).annotate(head=head)
        rows = rows.values_list("pk", "ns", "channel", "version", "head", named=True)
        keys, before = {}, {}
        for row in rows.iterator():
            keys[row.ns, row.channel, row.version] = row.pk
            if (part := value_deltas.read_delta(bytes(row.head))) is not None:
                before[row.ns, row.channel, row.version] = row.ns, row.channel, part.before
        for name in list(named):
            earlier = before.get(name)
            while earlier is not None and earlier not in named:
                named.add(earlier)
                earlier = before.get(earlier)
        return [pk for name, pk in keys.items() if name not in named]

    def _rows(self, model: type[models.Model]) -> models.QuerySet[Any]:
        return model._default_manager.using(self.using).filter(thread=self.thread).order_by()

    def _chosen(self, keys: Iterable[CheckpointKey], *columns: str) -> Iterator[Any]:
        for part in _batches([self.checkpoints[key] for key in keys]):
            yield from self._rows(Checkpoint).filter(pk__in=part).values_list(*columns, named=True)


class _Position(models.Func):
    """Database function for the position of bytes in a binary column.

    The first position is 1. If the bytes are not found, the result is 0.
    """

    function, arity = "INSTR", 2
    output_field = models.IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        turned = self.copy()
        turned.set_source_expressions(self.get_source_expressions()[::-1])
        return turned.as_sql(
            compiler, connection, template="POSITION(%(expressions)s)", arg_joiner=" IN ", **extra
        )


def _find_checkpoints(using: str, run_ids: Sequence[str]) -> Iterator[tuple[int, CheckpointKey]]:
    """Yield the thread and the key of each checkpoint of the runs.

    The thread of a run started by services is known. For other runs, all threads are searched: the
    database searches the binary column for the run id, and the matches are decoded and verified. An
    index would be more expensive, because each super-step would have to update it.
    """
    known = Run.objects.using(using).filter(pk__in=[run for run in run_ids if _is_uuid(run)])
    threads: dict[str, Any] = {
        str(run): thread for run, thread in known.values_list("pk", "thread")
    }
    for run_id in run_ids:
        rows = Checkpoint.objects.using(using).order_by()
        if run_id in threads:
            rows = rows.filter(thread=threads[run_id])
        needle = models.Value(codec.encode(run_id), output_field=models.BinaryField())
        found = rows.annotate(at=_Position("metadata", needle)).filter(at__gt=0)
        columns: Any = found.values_list("thread", "ns", "checkpoint_id", "metadata", named=True)
        for row in columns.iterator():
            if codec.decode(bytes(row.metadata)).get("run_id") == run_id:
                yield row.thread, (row.ns, row.checkpoint_id)


def _lock(using: str, **which: Any) -> dict[str, int]:
    # The rows are locked in the order of their keys, to avoid deadlocks.
    rows = Thread.objects.using(using).filter(**which).order_by("pk")
    return dict(rows.select_for_update(of=("self",)).values_list("thread_id", "pk"))


def _copy_rows(using: str, model: type[models.Model], source: int, target: int) -> None:
    """Insert copies of a thread's rows for the thread ``target``.

    The statement is written in SQL, because the ORM has no INSERT … SELECT.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    left_out = ("id", "thread", "created_at")
    columns = ", ".join(
        quote(str(field.column))
        for field in model._meta.concrete_fields
        if field.name not in left_out
    )
    table, key = quote(model._meta.db_table), quote("thread_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({key}, {columns}) "
            f"SELECT %s, {columns} FROM {table} WHERE {key} = %s",
            [target, source],
        )


def _batches(keys: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(keys)
    while part := list(islice(rest, BATCH)):
        yield part


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
