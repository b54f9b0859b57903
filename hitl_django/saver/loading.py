"""Checkpoint rows to what the engine gets: decoded, with their values and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat

from hitl_django import models
from hitl_django.engine.checkpoint import CheckpointMetadata, CheckpointTuple, PendingWrite

from .payloads import codec, intact, unpack
from .places import Place

_SEPARATOR = Value(":", output_field=TextField())


def checkpoint_rows(using: str) -> QuerySet[models.Checkpoint]:
    """Returns all checkpoints, newest first, with the thread's name."""
    return (
        models.Checkpoint.objects.using(using)
        .select_related("thread")
        .only(
            "thread__thread_id", "ns", "checkpoint_id", "parent_id", "data", "digest", "metadata",
        )
        .order_by("-checkpoint_id")
    )  # fmt: skip


def open_rows(
    rows: Iterable[models.Checkpoint], using: str, wanted: dict[str, Any] | None = None
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

    __slots__ = ("head", "metadata", "row", "values", "writes")

    def __init__(self, row: models.Checkpoint) -> None:
        data, about = bytes(row.data), bytes(row.metadata)
        intact(data + about, row.digest, f"checkpoint {row.checkpoint_id}")
        self.row = row
        self.head: dict[str, Any] = codec.decode(data)
        self.metadata: CheckpointMetadata = codec.decode(about)
        self.values: dict[str, Any] = {}
        self.writes: list[PendingWrite] = []

    def tuple(self) -> CheckpointTuple:
        row = self.row
        place = Place(row.thread.thread_id, row.ns)
        return CheckpointTuple(
            place.config(row.checkpoint_id),
            {**self.head, "channel_values": self.values},  # type: ignore[typeddict-item]
            self.metadata,
            None if row.parent_id is None else place.config(row.parent_id),
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
    # The versions alone lead through the index to few rows; the keys then leave out those of
    # channels that have changed since, before their data is read.
    blobs = (
        models.ChannelBlob.objects.using(using)
        .filter(
            thread=group[0].row.thread_id,
            ns=group[0].row.ns,
            version__in={version for _, version in wanted},
        )
        .annotate(key=Concat(Cast("version", TextField()), _SEPARATOR, "channel"))
        .filter(key__in=[f"{version}:{channel}" for channel, version in wanted])
        .values_list("channel", "version", "data", "digest")
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
    by_id = {one.row.checkpoint_id: one for one in group}
    rows = (
        models.PendingWrite.objects.using(using)
        .filter(
            thread=group[0].row.thread_id,
            ns=group[0].row.ns,
            checkpoint_id__in=list(by_id),
        )
        .values_list("checkpoint_id", "task_path", "task_id", "slot", "data", "digest")
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
        groups.setdefault((one.row.thread_id, one.row.ns), []).append(one)
    return groups.values()
