"""Checkpoint rows to what the engine gets: decoded, with their values and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hitl_django.engine.checkpoint import CheckpointMetadata, CheckpointTuple, PendingWrite

from . import growth, statements, versions
from .grounds import Ground
from .payloads import codec, intact, unpack
from .places import Place

Row = tuple[Any, ...]  # a checkpoint's columns, as statements.checkpoints names them


def open_rows(
    rows: Iterable[Row],
    using: str,
    wanted: dict[str, Any] | None = None,
    ground: Ground | None = None,
) -> Iterator[CheckpointTuple]:
    """Opens the rows whose metadata has what is wanted: two queries to a namespace, or five.

    ``ground`` takes what was found and may be built upon.
    """
    opened = [_Opened(row) for row in rows]
    opened = [one for one in opened if _matches(one.metadata, wanted)]
    for group in _by_namespace(opened):
        _fill_versions(group, using, ground)
        _fill_values(group, using, ground)
        _fill_writes(group, using)
    for one in opened:
        yield one.tuple()


class _Opened:
    """A checkpoint's row, decoded, while its values and writes are gathered."""

    __slots__ = (
        "checkpoint_id", "head", "metadata", "ns", "parent_id", "record", "thread", "thread_id",
        "values", "writes",
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        self.thread, self.thread_id, self.ns, self.checkpoint_id, self.parent_id = row[:5]
        data, about, stored = bytes(row[5]), bytes(row[6]), row[7]
        intact(data + about, stored, f"checkpoint {self.checkpoint_id}")
        self.record = codec.decode(data)
        self.head: versions.Head = {}
        self.metadata: CheckpointMetadata = codec.decode(about)
        self.values: dict[str, Any] = {}
        self.writes: list[PendingWrite] = []

    def tuple(self) -> CheckpointTuple:
        place = Place(self.thread_id, self.ns)
        return CheckpointTuple(
            place.config(self.checkpoint_id),
            {**self.head, "channel_values": self.values},  # type: ignore[typeddict-item]
            self.metadata,
            None if self.parent_id is None else place.config(self.parent_id),
            self.writes,
        )


def _fill_versions(group: Sequence[_Opened], using: str, ground: Ground | None) -> None:
    """Tells the checkpoints of one thread and namespace by their bases, if they have any."""
    named = {key for one in group if (key := versions.base_of(one.record)) is not None}
    bases = read_bases(using, group[0].thread, group[0].ns, named)
    for one in group:
        one.head = versions.whole(one.record, bases)
    if ground is not None:
        ground.base = next(iter(bases.values()), None)


def read_bases(
    using: str, thread: int, ns: str, named: set[versions.Key]
) -> dict[versions.Key, versions.Base]:
    """Reads the bases of these names; no query if there are none."""
    rows = _named(using, thread, ns, named) if named else {}
    return {key: versions.open_base(key, *row) for key, row in rows.items()}


def _fill_values(group: Sequence[_Opened], using: str, ground: Ground | None) -> None:
    """Reads the channel values of checkpoints of one thread and namespace."""
    wanted = {
        (channel, version)
        for one in group
        for channel, version in one.head["channel_versions"].items()
    }
    if not wanted:
        return
    rows = _read_values(group[0], using, wanted)
    whole = {key: _whole(*key, rows, ground) for key in wanted if key in rows}
    for one in group:
        for pair in one.head["channel_versions"].items():
            if pair in whole:
                # Decoded anew for each checkpoint: two must not share a list.
                one.values[pair[0]] = codec.decode(whole[pair])


def _read_values(one: _Opened, using: str, wanted: set[tuple[str, int]]) -> growth.Rows:
    """Reads channels at versions, with what the lists among them are made of."""
    rows = _named(using, one.thread, one.ns, wanted)
    parts = {key: part for key, (data, _) in rows.items() if (part := growth.part_of(data))}
    if parts:
        # From the newest seal on, or where that is another's, from the seal before.
        rows |= _by_version(
            statements.PARTS.run(
                using,
                thread=one.thread,
                ns=one.ns,
                channels=list({channel for channel, _ in parts}),
                first=min(part.seal for part in parts.values()),
                last=max(version for _, version in parts),
            )
        )
        if earlier := growth.seals_in(rows) - rows.keys():
            rows |= _named(using, one.thread, one.ns, earlier)
    return rows


def _named(
    using: str, thread: int, ns: str, pairs: set[tuple[str, int]]
) -> dict[tuple[str, int], growth.Stored]:
    return _by_version(
        statements.BLOBS.run(
            using,
            thread=thread,
            ns=ns,
            versions=list({version for _, version in pairs}),
            keys=[f"{version}:{channel}" for channel, version in pairs],
        )
    )


def _by_version(rows: Iterable[Row]) -> dict[tuple[str, int], growth.Stored]:
    return {(channel, version): (bytes(data), stored) for channel, version, data, stored in rows}


def _whole(channel: str, version: int, rows: growth.Rows, ground: Ground | None) -> bytes:
    """Returns a value's bytes, whether its row holds them or a part of them."""
    data, stored = rows[channel, version]
    if (data and growth.is_part(data)) or (ground is not None and growth.is_long_list(data)):
        data, tip = growth.whole(channel, version, rows)
        if ground is not None:
            ground.tips[channel] = tip
        return data
    return intact(data, stored, f"channel {channel!r}")


def _fill_writes(group: Sequence[_Opened], using: str) -> None:
    by_id = {one.checkpoint_id: one for one in group}
    rows = statements.WRITES.run(
        using, thread=group[0].thread, ns=group[0].ns, checkpoints=list(by_id)
    )
    # Sorted here and not by the database, whose collation may order paths as it likes.
    for checkpoint_id, _, task_id, _, data, stored in sorted(
        rows, key=lambda row: (row[1], row[2], row[3])
    ):
        writes = unpack(data, stored, f"writes of task {task_id}")
        by_id[checkpoint_id].writes += [(task_id, channel, value) for channel, value in writes]


def _matches(metadata: CheckpointMetadata, wanted: dict[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (wanted or {}).items())


def _by_namespace(opened: Iterable[_Opened]) -> Iterable[Sequence[_Opened]]:
    groups: dict[tuple[int, str], list[_Opened]] = {}
    for one in opened:
        groups.setdefault((one.thread, one.ns), []).append(one)
    return groups.values()
