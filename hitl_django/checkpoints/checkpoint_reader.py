"""Decoding of checkpoint rows to CheckpointTuples, with their values and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

from hitl_django.engine.errors import CorruptPayloadError, PayloadError
from hitl_django.engine.savers.checkpoint import CheckpointMetadata, CheckpointTuple, PendingWrite

from . import inline_values, inline_writes, queries, value_deltas, version_deltas
from .codec import codec, unpack, verify
from .coordinates import CheckpointRef
from .encrypted_rows import decrypt_row
from .queries import CheckpointRow, WriteRow
from .write_cache import CachedNamespace


def decode_checkpoint(
    rows: Sequence[CheckpointRow], using: str, cached: CachedNamespace, *, has_newest: bool
) -> CheckpointTuple | None:
    """Decode a checkpoint that was read together with its writes. Return None if ``rows`` is empty.

    Channel values that are lists or dicts are added to ``cached``, because later checkpoints may
    store only added items. ``has_newest`` is true if the checkpoint is the newest of its namespace.
    """
    one = [row for row in rows if row.task_id is None]
    written = [
        WriteRow(
            row.checkpoint_id, row.parent_id or "", row.task_id, row.slot, row.data, row.digest
        )
        for row in rows
        if row.task_id is not None
    ]
    opened = decode_checkpoints(one, using, cached=cached, has_newest=has_newest, written=written)
    return next(opened, None)


def decode_checkpoints(
    rows: Iterable[CheckpointRow],
    using: str,
    wanted: dict[str, Any] | None = None,
    cached: CachedNamespace | None = None,
    *,
    has_newest: bool = False,
    written: Sequence[WriteRow] | None = None,
) -> Iterator[CheckpointTuple]:
    """Decode the rows whose metadata contains ``wanted``, with few queries per namespace.

    Channel values that are lists or dicts are added to ``cached``, because later checkpoints may
    store only added items. ``has_newest`` is true if the newest checkpoint of each namespace is
    among the rows. ``written`` are the pending writes of the checkpoints, if already read.
    """
    opened = [_Decoded(row) for row in rows]
    groups = _group_by_namespace(opened)
    for group in groups:
        inline_writes.fill_ended(group, using, has_newest=has_newest)
    if wanted:
        opened = [one for one in opened if _matches(one.metadata, wanted)]
        groups = _group_by_namespace(opened)
    for one in opened:
        one.decode()
    for group in groups:
        _fill_versions(group, using, cached)
        _fill_values(group, using, cached)
        _fill_writes(group, _read_writes(group, using) if written is None else written)
    for one in opened:
        yield one.tuple()


def read_newest(using: str, threads: Sequence[int]) -> dict[str, CheckpointTuple]:
    """Return the newest checkpoints of threads by thread id, read with few queries.

    Damaged checkpoints are left out.
    """
    heads, rows, written = queries.read_newest(using, threads)
    opened: dict[int, _Decoded] = {}
    for row in rows:
        with suppress(PayloadError):
            one = _Decoded(row)
            one.decode()
            opened[row.thread] = one
    bases = _read_of_threads(using, {t: _list_bases(one) for t, one in opened.items()})
    opened = _filter_undamaged(
        opened, lambda one: _restore_versions(one, bases.get(one.thread, {}))
    )
    stored = _read_of_threads(using, {t: one.list_apart() for t, one in opened.items()})
    _add_parts(using, stored)
    opened = _filter_undamaged(opened, lambda one: _add_stored(one, stored.get(one.thread, {})))
    on_top: dict[int, list[WriteRow]] = {}
    for thread, write in written:
        if heads[thread] == write.checkpoint_id:
            on_top.setdefault(thread, []).append(write)
    opened = _filter_undamaged(opened, lambda one: _fill_writes([one], on_top.get(one.thread, ())))
    return {one.thread_id: one.tuple() for one in opened.values()}


def _filter_undamaged(
    opened: Mapping[int, _Decoded], step: Callable[[_Decoded], None]
) -> dict[int, _Decoded]:
    """Return the checkpoints for which calling ``step`` raises no error."""
    undamaged = {}
    for thread, one in opened.items():
        with suppress(PayloadError):
            step(one)
            undamaged[thread] = one
    return undamaged


def _list_bases(one: _Decoded) -> Sequence[version_deltas.RowKey]:
    with suppress(PayloadError):
        key = version_deltas.base_key(one.record)
        return [] if key is None else [key]
    return []


def _restore_versions(one: _Decoded, rows: value_deltas.Rows) -> None:
    bases = {key: version_deltas.decode_base(key, *row) for key, row in rows.items()}
    one.head = version_deltas.restore_head(one.record, bases)
    one.apart = one.head.pop(inline_values.APART, 0)


def _add_stored(one: _Decoded, rows: value_deltas.Rows) -> None:
    one.add_values(
        {key: _restore_value(*key, rows, None) for key in one.list_apart() if key in rows}
    )


def _read_of_threads(
    using: str, wanted: Mapping[int, Sequence[version_deltas.RowKey]]
) -> dict[int, value_deltas.Rows]:
    """Read channel values of the threads' root graphs, and return the values by thread.

    ``wanted`` contains the channels and versions to read, by thread. Damaged values are left out.
    """
    found: dict[int, dict[version_deltas.RowKey, value_deltas.Stored]] = {}
    for thread, row in queries.read_blobs_of_threads(using, wanted):
        with suppress(PayloadError):  # A missing row is detected later.
            found.setdefault(thread, {})[row.channel, row.version] = _decrypt_blob(row)
    return {**found}


def _add_parts(using: str, stored: dict[int, value_deltas.Rows]) -> None:
    """Add to ``stored`` the missing rows of those values that are stored as deltas."""
    grown = {}
    for thread, rows in stored.items():
        deltas = {key: value_deltas.read_delta(data) for key, (data, _) in rows.items()}
        parts = {key: part for key, part in deltas.items() if part is not None}
        if parts:
            first = min(part.seal for part in parts.values())
            last = max(version for _, version in parts)
            grown[thread] = ([*{channel for channel, _ in parts}], first, last)
    for thread, row in queries.read_parts_of_threads(using, grown):
        with suppress(PayloadError):
            found = {(row.channel, row.version): _decrypt_blob(row)}
            stored[thread] = {**stored[thread], **found}
    seals = {
        thread: [*value_deltas.find_seals(rows) - rows.keys()] for thread, rows in stored.items()
    }
    for thread, rows in _read_of_threads(using, seals).items():
        stored[thread] = {**stored[thread], **rows}


class _Decoded:
    """A checkpoint that is decoded step by step. At first, only the metadata is decoded."""

    __slots__ = (
        "apart", "checkpoint_id", "ended", "head", "is_whole", "led_here", "metadata", "ns",
        "parent_id", "payloads", "record",
        "thread", "thread_id", "values", "writes",
    )  # fmt: skip

    def __init__(self, row: CheckpointRow) -> None:
        self.thread, self.thread_id, self.ns = row.thread, row.thread_id, row.ns
        self.checkpoint_id, self.parent_id = row.checkpoint_id, row.parent_id
        payloads = inline_writes.verify_payloads(row, self.checkpoint_id)
        self.led_here, self.payloads = payloads.writes, payloads
        self.metadata: CheckpointMetadata = codec.decode(payloads.metadata)
        self.record: Any = None
        self.head: version_deltas.Head = {}
        self.values: dict[str, Any] = {}
        self.is_whole = False
        #: The number of values that have separate rows.
        self.apart = 0
        #: The writes that led from the parent to this checkpoint, and the writes that led from this
        #: checkpoint to its child.
        self.ended = b""
        self.writes: list[PendingWrite] = []

    def decode(self) -> None:
        """Decode the columns that aren't needed to select checkpoints by their metadata."""
        self.record = codec.decode(self.payloads.data)
        self.values, self.is_whole = inline_values.unpack(self.payloads.scalars)

    def list_apart(self) -> Sequence[version_deltas.RowKey]:
        """Return the channel and version of each value that has a separate row."""
        if self.is_whole:
            return ()
        versions = self.head["channel_versions"].items()
        return [pair for pair in versions if pair[0] not in self.values]

    def add_values(self, restored: Mapping[version_deltas.RowKey, bytes]) -> None:
        """Add the restored channel values that belong to this checkpoint."""
        found = [pair for pair in self.list_apart() if pair in restored]
        if len(found) != self.apart:
            raise CorruptPayloadError(
                f"Checkpoint {self.checkpoint_id} is missing values: expected {self.apart} "
                f"separately stored values, found {len(found)}."
            )
        for pair in found:
            # The value is decoded separately for each checkpoint, because two checkpoints must not
            # share a list.
            self.values[pair[0]] = codec.decode(restored[pair])

    def tuple(self) -> CheckpointTuple:
        ref = CheckpointRef(self.thread_id, self.ns)
        return CheckpointTuple(
            ref.config(self.checkpoint_id),
            {**self.head, "channel_values": self.values},  # type: ignore[typeddict-item]
            self.metadata,
            None if self.parent_id is None else ref.config(self.parent_id),
            self.writes,
        )


def _fill_versions(group: Sequence[_Decoded], using: str, cached: CachedNamespace | None) -> None:
    """Set ``head`` of each checkpoint in ``group``: the checkpoint without its channel values.

    The checkpoints belong to one namespace. Their channel versions may be stored as differences
    from a base (see ``version_deltas``). The base is added to ``cached``.
    """
    named = {key for one in group if (key := version_deltas.base_key(one.record)) is not None}
    bases = read_bases(using, group[0].thread, group[0].ns, named)
    for one in group:
        one.head = version_deltas.restore_head(one.record, bases)
        one.apart = one.head.pop(inline_values.APART, 0)
    if cached is not None:
        cached.base = next(iter(bases.values()), None)
        cached.without_inline = group[0].checkpoint_id if not group[0].values else None


def read_bases(
    using: str, thread: int, ns: str, named: set[version_deltas.RowKey]
) -> dict[version_deltas.RowKey, version_deltas.VersionBase]:
    """Read the version bases with the keys ``named``. If there are no keys, make no query."""
    rows = _read_named(using, thread, ns, named) if named else {}
    return {key: version_deltas.decode_base(key, *row) for key, row in rows.items()}


def _fill_values(group: Sequence[_Decoded], using: str, cached: CachedNamespace | None) -> None:
    wanted = {pair for one in group for pair in one.list_apart()}
    if not wanted:
        return
    rows = _read_values(group[0], using, wanted)
    restored = {key: _restore_value(*key, rows, cached) for key in wanted if key in rows}
    for one in group:
        one.add_values(restored)


def _read_values(one: _Decoded, using: str, wanted: set[tuple[str, int]]) -> value_deltas.Rows:
    """Read the values of the channel versions in ``wanted``, for one checkpoint.

    If a value is stored as deltas, all of its parts are read.
    """
    rows = _read_named(using, one.thread, one.ns, wanted)
    deltas = {key: value_deltas.read_delta(data) for key, (data, _) in rows.items()}
    parts = {key: part for key, part in deltas.items() if part is not None}
    if parts:
        # The rows from the newest seal onwards. If the newest seal belongs to another value, the
        # rows from the previous seal onwards.
        rows |= _key_by_version(
            queries.PARTS.run(
                using,
                thread=one.thread,
                ns=one.ns,
                channels=list({channel for channel, _ in parts}),
                first=min(part.seal for part in parts.values()),
                last=max(version for _, version in parts),
            )
        )
        if earlier := value_deltas.find_seals(rows) - rows.keys():
            rows |= _read_named(using, one.thread, one.ns, earlier)
    return rows


def _read_named(
    using: str, thread: int, ns: str, pairs: set[tuple[str, int]]
) -> dict[tuple[str, int], value_deltas.Stored]:
    return _key_by_version(
        queries.BLOBS.run(
            using,
            thread=thread,
            ns=ns,
            versions=list({version for _, version in pairs}),
            keys=[f"{version}:{channel}" for channel, version in pairs],
        )
    )


def _key_by_version(
    rows: Iterable[queries.BlobRow],
) -> dict[tuple[str, int], value_deltas.Stored]:
    return {(row.channel, row.version): _decrypt_blob(row) for row in rows}


def _decrypt_blob(row: queries.BlobRow) -> value_deltas.Stored:
    data = bytes(row.data)
    return decrypt_row(data, row.digest, value_deltas.head_size(data), f"channel {row.channel!r}")


def _restore_value(
    channel: str, version: int, rows: value_deltas.Rows, cached: CachedNamespace | None
) -> bytes:
    """Return the encoded bytes of a value from its row, or from all rows of its deltas."""
    data, stored = rows[channel, version]
    if (data and value_deltas.is_delta(data)) or (
        cached is not None and value_deltas.may_grow(data)
    ):
        data, tip = value_deltas.restore_value(channel, version, rows)
        if cached is not None:
            cached.tips[channel] = tip
        return data
    return verify(data, stored, f"channel {channel!r}")


def _read_writes(group: Sequence[_Decoded], using: str) -> Sequence[WriteRow]:
    return queries.WRITES.run(
        using,
        thread=group[0].thread,
        ns=group[0].ns,
        checkpoints=[one.checkpoint_id for one in group],
    )


def _fill_writes(group: Sequence[_Decoded], rows: Iterable[WriteRow]) -> None:
    by_id = {one.checkpoint_id: one for one in group}
    found: dict[inline_writes.WriteKey, Any] = {}
    for one in group:
        found |= inline_writes.decode_writes(one.checkpoint_id, one.ended)
    for row in rows:
        key = inline_writes.WriteKey(row.checkpoint_id, row.task_path, row.task_id, row.slot)
        found[key] = unpack(row.data, row.digest, f"writes of task {row.task_id}")
    # The writes are sorted here, because the order of paths in the database depends on its
    # collation.
    for key in sorted(found, key=attrgetter("task_path", "task_id", "slot")):
        writes = [(key.task_id, channel, value) for channel, value in found[key]]
        by_id[key.checkpoint_id].writes += writes


def _matches(metadata: CheckpointMetadata, wanted: dict[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (wanted or {}).items())


def _group_by_namespace(opened: Iterable[_Decoded]) -> Sequence[Sequence[_Decoded]]:
    groups: dict[tuple[int, str], list[_Decoded]] = {}
    for one in opened:
        groups.setdefault((one.thread, one.ns), []).append(one)
    return [*groups.values()]
