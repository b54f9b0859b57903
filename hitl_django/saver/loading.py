"""Checkpoint rows to what the engine gets: decoded, with their values and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hitl_django.engine.checkpoint import CheckpointMetadata, CheckpointTuple, PendingWrite

from . import statements
from .payloads import codec, intact, unpack
from .places import Place

Row = tuple[Any, ...]  # a checkpoint's columns, as statements.checkpoints names them


def open_rows(
    rows: Iterable[Row], using: str, wanted: dict[str, Any] | None = None
) -> Iterator[CheckpointTuple]:
    """Opens the rows whose metadata has what is wanted: two queries to a namespace."""
    opened = [_Opened(row) for row in rows]
    opened = [one for one in opened if _matches(one.metadata, wanted)]
    for group in _by_namespace(opened):
        _fill_values(group, using)
        _fill_writes(group, using)
    for one in opened:
        yield one.tuple()


class _Opened:
    """A checkpoint's row, decoded, while its values and writes are gathered."""

    __slots__ = (
        "checkpoint_id", "head", "metadata", "ns", "parent_id", "thread", "thread_id", "values",
        "writes",
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        self.thread, self.thread_id, self.ns, self.checkpoint_id, self.parent_id = row[:5]
        data, about, stored = bytes(row[5]), bytes(row[6]), row[7]
        intact(data + about, stored, f"checkpoint {self.checkpoint_id}")
        self.head: dict[str, Any] = codec.decode(data)
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


def _fill_values(group: Sequence[_Opened], using: str) -> None:
    """Reads the channel values of checkpoints of one thread and namespace, in one query."""
    wanted = {
        (channel, version)
        for one in group
        for channel, version in one.head["channel_versions"].items()
    }
    if not wanted:
        return
    blobs = statements.BLOBS.run(
        using,
        thread=group[0].thread,
        ns=group[0].ns,
        versions=list({version for _, version in wanted}),
        keys=[f"{version}:{channel}" for channel, version in wanted],
    )
    found = {
        (channel, version): intact(data, stored, f"channel {channel!r}")
        for channel, version, data, stored in blobs
    }
    for one in group:
        for pair in one.head["channel_versions"].items():
            if pair in found:
                # Decoded anew for each checkpoint: two must not share a list.
                one.values[pair[0]] = codec.decode(found[pair])


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
