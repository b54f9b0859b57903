"""Prepared SQL of the saver, compiled once per process from the models.

Building and compiling a query with the ORM takes several times longer than running it, and every
super-step runs these queries. SQLite and PostgreSQL use the same statements. The statements use
Django's connection, so they are part of the caller's transaction and visible to instrumentation
(see ``db.raw_cursor``). Every value is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import models
from django.db.models.functions import Cast, Concat
from django.db.models.lookups import IsNull

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.engine.constants import CONTROL_SLOTS, KEYED, RESUME
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Thread

_WRITE = [
    "thread", "ns", "checkpoint_id", "task_id", "task_path", "slot", "data", "digest", "epoch",
]  # fmt: skip

# The first write of a task is kept. A node may run twice after a crash, or in two workers if one
# worker has lost its lease. Other tasks must not see a change.
KEEP_WRITES = BulkInsert(PendingWrite, _WRITE)

# Control writes (resume values, errors, next tasks) describe the current status, so the last write
# is kept.
REPLACE_WRITES = BulkInsert(
    PendingWrite,
    _WRITE,
    key=["thread", "ns", "checkpoint_id", "task_id", "slot"],
    replaced=["task_path", "data", "digest", "epoch"],
)

_BLOB = ["thread", "ns", "channel", "version", "data", "digest"]

# A version always has the same value, so an existing row needs no update.
KEEP_BLOBS = BulkInsert(ChannelBlob, _BLOB)

# An existing row is updated if nodes have changed the value in place while it was stored as a
# delta.
REPLACE_BLOBS = BulkInsert(
    ChannelBlob,
    _BLOB,
    key=["thread", "ns", "channel", "version"],
    replaced=["data", "digest"],
)

# A checkpoint that ``put`` stores again is replaced.
REPLACE_CHECKPOINTS = BulkInsert(
    Checkpoint,
    [
        "thread", "ns", "checkpoint_id", "parent_id", "step", "source", "data", "digest",
        "metadata", "scalars", "writes", "epoch",
    ],
    key=["thread", "ns", "checkpoint_id"],
    replaced=[
        "parent_id", "step", "source", "data", "digest", "metadata", "scalars", "writes", "epoch",
    ],
)  # fmt: skip

_BIG, _TEXT = models.BigIntegerField(), models.TextField()
_THREAD_ID, _CHECKPOINT_ID = Parameter("thread_id", _TEXT), Parameter("checkpoint_id", _TEXT)
_THREAD, _NS = Parameter("thread", _BIG), Parameter("ns", _TEXT)


class Payloads(NamedTuple):
    """The binary columns of a checkpoint, in the order in which they are digested."""

    data: bytes
    metadata: bytes
    scalars: bytes
    writes: bytes


#: The binary columns of a checkpoint, and their digest.
PAYLOAD_COLUMNS = (*Payloads._fields, "digest")


class CheckpointRow(NamedTuple):
    """A row of the queries ``checkpoints`` and ``newest_rows``.

    In ``newest_rows``, a row with a task id is a write instead of a checkpoint. ``parent_id`` is
    then the path of the write's task.
    """

    thread: int
    thread_id: str
    ns: str
    checkpoint_id: str
    parent_id: str | None
    data: bytes
    metadata: bytes
    scalars: bytes
    writes: bytes
    digest: str
    task_id: str | None = None
    slot: Any = None


class ChildRow(NamedTuple):
    """A checkpoint that is read only to get the writes in its row.

    These writes belong to the checkpoint's parent.
    """

    parent_id: str
    data: bytes
    metadata: bytes
    scalars: bytes
    writes: bytes
    digest: str


class BlobRow(NamedTuple):
    """The stored value of a channel at one version."""

    channel: str
    version: int
    data: bytes
    digest: str


class WriteRow(NamedTuple):
    """The stored writes of a task."""

    checkpoint_id: str
    task_path: str
    task_id: str
    slot: int
    data: bytes
    digest: str


class AnswersRow(NamedTuple):
    """The resume values of a task. The columns are None if the task has no resume values."""

    data: bytes | None
    digest: str


def checkpoints() -> models.QuerySet[Checkpoint, tuple[Any, ...]]:
    """Return a query for the rows of all checkpoints, newest first, with their thread ids."""
    return Checkpoint.objects.order_by("-checkpoint_id").values_list(
        "thread", "thread__thread_id", "ns", "checkpoint_id", "parent_id", *PAYLOAD_COLUMNS
    )


def thread_key(thread_id: Any) -> models.Subquery:
    """Return a subquery for the primary key of the thread with this thread id.

    A join would be slower. For a join, PostgreSQL doesn't know that only one thread matches, and
    would sort all checkpoints of the thread to find the newest checkpoint.
    """
    return models.Subquery(Thread.objects.filter(thread_id=thread_id).values("pk")[:1])


def _with_writes(
    thread: Any, checkpoint_id: Any, *others: models.QuerySet[Any, tuple[Any, ...]]
) -> models.QuerySet[Any, tuple[Any, ...]]:
    """Return a query for the row of a checkpoint and the rows of its pending writes.

    The row of a write contains the path of its task in the column ``parent_id``, and its data and
    digest in the columns of the same names. Two additional columns contain the id of the task and
    the ``slot`` of the write (see PendingWrite). They are empty in the row of the checkpoint.
    ``others`` are queries for more rows with the same columns.
    """
    here = {"thread": thread, "ns": _NS, "checkpoint_id": checkpoint_id}
    one = checkpoints().order_by().filter(**here).annotate(task=_NO_TEXT, at=_NO_SLOT)
    written = PendingWrite.objects.filter(**here).values_list(
        "thread", _NO_TEXT, "ns", "checkpoint_id", "task_path",
        "data", _NO_BYTES, _NO_BYTES, _NO_BYTES, "digest", "task_id", "slot",
    )  # fmt: skip
    return one.union(written, *others, all=True)


_NO_TEXT = models.Value(None, output_field=_TEXT)
_NO_BYTES = models.Value(None, output_field=models.BinaryField())
_NO_SLOT = models.Value(None, output_field=models.SmallIntegerField())


def newest_rows(
    thread: Any, *others: models.QuerySet[Any, tuple[Any, ...]]
) -> models.QuerySet[Any, tuple[Any, ...]]:
    """Return a query for the rows of a thread's newest checkpoint and of its pending writes.

    ``others`` are queries for more rows with the same columns.
    """
    rows = Checkpoint.objects.filter(thread=thread, ns=_NS).order_by("-checkpoint_id")
    return _with_writes(thread, models.Subquery(rows.values("checkpoint_id")[:1]), *others)


def empty_rows(rows: models.QuerySet[Any, Any]) -> models.QuerySet[Any, tuple[Any, ...]]:
    """Return a query with one row for each object in ``rows``, for a union with ``newest_rows``.

    The query has the columns of ``newest_rows``. The first column contains the object's thread. All
    other columns are empty.
    """
    return rows.values_list(
        "thread", _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT,
        _NO_BYTES, _NO_BYTES, _NO_BYTES, _NO_BYTES, _NO_TEXT, _NO_TEXT, _NO_SLOT,
    )  # fmt: skip


#: Reads the newest checkpoint of a namespace and the writes based on it, by thread id.
NEWEST = PreparedSelect(lambda: newest_rows(thread_key(_THREAD_ID)), CheckpointRow)

#: Reads the newest checkpoint of a namespace and the writes based on it, by the key of the thread.
NEWEST_BY_KEY = PreparedSelect(lambda: newest_rows(_THREAD), CheckpointRow)

#: Reads a checkpoint and the writes based on it.
CHECKPOINT = PreparedSelect(
    lambda: _with_writes(thread_key(_THREAD_ID), _CHECKPOINT_ID), CheckpointRow
)


def _rows_with_parent() -> models.QuerySet[Checkpoint, tuple[Any, ...]]:
    rows = Checkpoint.objects.filter(thread=_THREAD, ns=_NS).order_by("checkpoint_id")
    return rows.values_list(*ChildRow._fields)


#: Reads the checkpoint that was stored next in a namespace, with its parent.
FOLLOWING = PreparedSelect(
    lambda: _rows_with_parent().filter(checkpoint_id__gt=_CHECKPOINT_ID)[:1], ChildRow
)

#: Reads the children of checkpoints in one namespace, earliest first, without an index.
CHILDREN = PreparedSelect(
    lambda: _rows_with_parent().filter(parent_id__in=[Parameter("parents", _TEXT, many=True)]),
    ChildRow,
)


@cache
def page_query(size: int, bounded: bool) -> PreparedSelect:
    """Return a query for the ``size`` newest checkpoints of a namespace.

    With ``bounded``, the query selects only checkpoints before a given checkpoint id.
    """

    def rows() -> models.QuerySet[Checkpoint, tuple[Any, ...]]:
        found = checkpoints().filter(thread=thread_key(_THREAD_ID), ns=_NS)
        return (found.filter(checkpoint_id__lt=_CHECKPOINT_ID) if bounded else found)[:size]

    return PreparedSelect(rows, CheckpointRow)


def _blobs() -> models.QuerySet[ChannelBlob, tuple[Any, ...]]:
    # The versions use the index and match few rows. The keys exclude rows of other channels before
    # their data is read.
    colon = models.Value(":", output_field=_TEXT)
    key = Concat(Cast("version", _TEXT), colon, "channel")
    return (
        ChannelBlob.objects.annotate(key=key)
        .filter(
            thread=_THREAD,
            ns=_NS,
            version__in=[Parameter("versions", _BIG, many=True)],
            key__in=[Parameter("keys", _TEXT, many=True)],
        )
        .values_list(*BlobRow._fields)
    )


#: Reads values of checkpoints in one namespace by channel and version.
BLOBS = PreparedSelect(_blobs, BlobRow)

#: Reads the versions of channels between the first and the last.
PARTS = PreparedSelect(
    lambda: ChannelBlob.objects.filter(
        thread=_THREAD,
        ns=_NS,
        version__gte=Parameter("first", _BIG),
        version__lte=Parameter("last", _BIG),
        channel__in=[Parameter("channels", _TEXT, many=True)],
    ).values_list(*BlobRow._fields),
    BlobRow,
)

#: Reads the writes on top of checkpoints in one namespace.
WRITES = PreparedSelect(
    lambda: PendingWrite.objects.filter(
        thread=_THREAD,
        ns=_NS,
        checkpoint_id__in=[Parameter("checkpoints", _TEXT, many=True)],
    ).values_list(*WriteRow._fields),
    WriteRow,
)

#: Reads one control write of a task.
CONTROL = PreparedSelect(
    lambda: PendingWrite.objects.filter(
        thread=_THREAD,
        ns=_NS,
        checkpoint_id=_CHECKPOINT_ID,
        task_id=Parameter("task_id", _TEXT),
        slot=Parameter("slot", models.SmallIntegerField()),
    ).values_list(*AnswersRow._fields),
    AnswersRow,
)


def answer_columns() -> tuple[models.Subquery, models.Subquery]:
    """Return columns that add the resume values of each interrupt's task to a query of interrupts.

    The first column contains the encoded values, the second column their digest.
    """
    slot = models.Case(
        models.When(IsNull(models.OuterRef("key"), True), then=CONTROL_SLOTS[RESUME]),
        default=CONTROL_SLOTS[KEYED],
        output_field=models.SmallIntegerField(),
    )
    rows = PendingWrite.objects.order_by().filter(
        thread=models.OuterRef("thread"),
        ns=models.OuterRef("checkpoint_ns"),
        checkpoint_id=models.OuterRef("checkpoint_id"),
        task_id=models.OuterRef("task_id"),
        slot=slot,
    )
    return models.Subquery(rows.values("data")[:1]), models.Subquery(rows.values("digest")[:1])


def read_newest(
    using: str, threads: Sequence[int]
) -> tuple[dict[int, str], list[CheckpointRow], list[tuple[int, WriteRow]]]:
    """Read the newest checkpoints of the threads' root graphs, and their pending writes.

    Return the checkpoint ids by thread, the checkpoint rows, and pairs of thread and write. The
    caller must skip writes of older checkpoints. These may be included if ``threads`` contains a
    thread and its copy: both have checkpoints with the same ids, and the newest checkpoint of one
    may be an older checkpoint of the other.
    """
    newest = Checkpoint.objects.filter(thread=models.OuterRef("pk"), ns="")
    newest_id = models.Subquery(newest.order_by("-checkpoint_id").values("checkpoint_id")[:1])
    named = Thread.objects.using(using).filter(pk__in=threads).values_list("pk", newest_id)
    heads = {thread: head for thread, head in named if head is not None}
    here = {"thread__in": [*heads], "ns": "", "checkpoint_id__in": {*heads.values()}}
    found = checkpoints().using(using).order_by().filter(**here)
    rows = [row for columns in found if heads[(row := CheckpointRow(*columns)).thread] == row[3]]
    written = PendingWrite.objects.using(using).filter(**here)
    writes = written.values_list("thread", *WriteRow._fields)
    return heads, rows, [(thread, WriteRow(*columns)) for thread, *columns in writes]


def read_blobs_of_threads(
    using: str, wanted: Mapping[int, Sequence[tuple[str, int]]]
) -> Iterator[tuple[int, BlobRow]]:
    """Read values of the threads' root graphs.

    ``wanted`` contains the channels and versions to read, by thread. Yield each value with its
    thread.
    """
    keys = {f"{pk}:{version}:{channel}" for pk in wanted for channel, version in wanted[pk]}
    if not keys:
        return
    colon = models.Value(":", output_field=_TEXT)
    key = Concat(Cast("thread_id", _TEXT), colon, Cast("version", _TEXT), colon, "channel")
    rows = (
        ChannelBlob.objects.using(using)
        .annotate(key=key)
        .filter(
            thread__in=[pk for pk, pairs in wanted.items() if pairs],
            ns="",
            version__in={version for pairs in wanted.values() for _, version in pairs},
            key__in=keys,
        )
    )
    for thread, *columns in rows.values_list("thread", *BlobRow._fields):
        yield thread, BlobRow(*columns)


def read_parts_of_threads(
    using: str, grown: Mapping[int, tuple[Sequence[str], int, int]]
) -> Iterator[tuple[int, BlobRow]]:
    """Read the parts of values that are stored as deltas, in the root graphs of several threads.

    ``grown`` contains the channels, the first version and the last version to read, by thread.
    Yield each part with its thread.
    """
    chosen = models.Q()
    for thread, (channels, first, last) in grown.items():
        chosen |= models.Q(
            thread=thread, version__gte=first, version__lte=last, channel__in=channels
        )
    if grown:
        rows = ChannelBlob.objects.using(using).filter(chosen, ns="")
        for thread, *columns in rows.values_list("thread", *BlobRow._fields):
            yield thread, BlobRow(*columns)
