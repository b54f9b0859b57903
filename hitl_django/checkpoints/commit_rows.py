"""Rows of a commit, built before its transaction begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitl_django.db.write_batch import WriteBatch
from hitl_django.encryption import find_key_ring
from hitl_django.engine.constants import CHANGED, CONTROL_SLOTS, KEYED, NULL_TASK_ID, RESUME
from hitl_django.engine.errors import PayloadError
from hitl_django.engine.savers.checkpoint import (
    AddedEntries,
    AppendedValue,
    Checkpoint,
    CheckpointMetadata,
    TaskWrites,
    Version,
)
from hitl_django.engine.savers.shared_values import SharedValues
from hitl_django.engine.serde import digest

from . import inline_values, inline_writes, queries, value_deltas, version_deltas
from .codec import codec, pack_channel, pack_writes
from .coordinates import CheckpointRef
from .encrypted_rows import encrypt_column, encrypt_row
from .write_cache import CachedNamespace

ANSWERS, KEYED_ANSWERS = CONTROL_SLOTS[RESUME], CONTROL_SLOTS[KEYED]
CHANGES = CONTROL_SLOTS[CHANGED]

Row = tuple[Any, ...]  # The column values of a row, without the thread.


class CommitRows:
    """The rows of one commit. One statement writes all rows of the same kind.

    Values are encoded when they are added, before a transaction locks the thread. A value that
    can't be stored is therefore rejected without a lock, and slow encoding doesn't prolong the
    lock.
    """

    def __init__(
        self,
        ref: CheckpointRef,
        epoch: int = 0,
        cached: CachedNamespace | None = None,
        shared: SharedValues | None = None,
    ) -> None:
        self.ref, self.epoch, self._shared = ref, epoch, shared
        self._key_ring = find_key_ring()
        #: Values that this commit can continue, and values of this commit that later commits can
        #: continue.
        self.cached = cached
        self.grown: dict[str, value_deltas.ValueTip] = {}
        self.base: version_deltas.VersionBase | None = None
        self._kept: list[Row] = []
        self._replaced: list[Row] = []
        self._blobs: list[Row] = []
        self._corrected: list[Row] = []
        self._is_last = False
        self._checkpoints: list[Row] = []
        self._ended: list[inline_writes.EndedTask] = []
        #: The id of this commit's checkpoint if all of its values have separate rows, else None.
        self.without_inline: str | None = None
        #: Ids of interrupts that changed after their decision.
        self.changed: list[str] = []

    def add_writes(
        self, task: TaskWrites, *, answers_stand: bool = False, ends_step: bool = False
    ) -> None:
        """Add the writes of a task.

        With ``answers_stand``, the task's resume values in the database are not replaced, because a
        reviewer may have added a resume value after the task started. Exception: resume values
        given in the call that started the run (``answered_by_run``) always replace those in the
        database. With ``ends_step``, the writes are stored in the row of the next checkpoint
        instead of separate rows.
        """
        for slot, writes in _group_by_slot(task.writes).items():
            unit = slot == inline_writes.UNIT and task.task_id != NULL_TASK_ID
            ended = inline_writes.EndedTask(
                task.task_id, task.task_path, pack_writes(writes, self._shared)
            )
            if unit and ends_step:
                self._ended.append(ended)
                continue
            are_others = answers_stand and not task.answered_by_run
            is_kept = unit or (are_others and slot in (ANSWERS, KEYED_ANSWERS))
            (self._kept if is_kept else self._replaced).append(self._write(slot, *ended))
            if slot == CHANGES:
                self.changed += writes[0][1]

    def _write(self, slot: int, task_id: str, path: str, data: bytes) -> Row:
        ns, checkpoint_id = self.ref.ns, self.ref.checkpoint_id or ""
        its_digest = digest(data)
        if self._key_ring is not None:
            data, its_digest = encrypt_row(data, its_digest, 0, self._key_ring)
        return ns, checkpoint_id, task_id, path, slot, data, its_digest, self.epoch

    def add_checkpoint(
        self,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
        added: Mapping[str, AddedEntries] | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Add a checkpoint as a child of the checkpoint to which this commit belongs.

        ``new_versions`` are the changed channels. ``added`` contains the new entries of lists and
        dicts that have only grown, by channel. ``added`` is None outside of a run. ``is_last`` is
        true for the last commit of a run.
        """
        self._is_last = is_last
        head: dict[str, Any] = dict(checkpoint)
        values = head.pop("channel_values")
        few = inline_values.select_scalars(values)
        for channel, version in new_versions.items():
            # An emptied channel has a version but no value.
            if channel in values and (few is None or channel not in few):
                self._blobs.append(self._build_blob(channel, version, values[channel], added))
        if few is None:
            self._add_scalar_rows(head, values, new_versions)
        if (apart := len(values) - len(few or ())) > 0:
            head[inline_values.APART] = apart
        payloads = queries.Payloads(
            self._encode_head(head),
            codec.encode(dict(metadata)),
            b"" if few is None else inline_values.pack(few, is_whole=len(few) == len(values)),
            self._pack_ended_tasks(),
        )
        if self._key_ring is not None:
            payloads = payloads._replace(
                scalars=encrypt_column(payloads.scalars, self._key_ring),
                writes=encrypt_column(payloads.writes, self._key_ring),
            )
        self._checkpoints.append(
            (
                self.ref.ns,
                checkpoint["id"],
                self.ref.checkpoint_id,
                metadata.get("step", -1),
                metadata.get("source", ""),
                payloads.data,
                digest(b"".join(payloads)),
                payloads.metadata,
                payloads.scalars,
                payloads.writes,
                self.epoch,
            )
        )

    def _pack_ended_tasks(self) -> bytes:
        """Return the encoded writes that led to the checkpoint, for the checkpoint's row.

        If the writes are too large, separate rows are added, and the result is empty.
        """
        if sum(len(task.data) for task in self._ended) > inline_writes.MAX_BYTES:
            self._kept += [self._write(inline_writes.UNIT, *ended) for ended in self._ended]
            return b""
        return inline_writes.pack_tasks(self._ended) if self._ended else b""

    def _add_scalar_rows(
        self, head: version_deltas.Head, values: dict[str, Any], new_versions: dict[str, Version]
    ) -> None:
        """Add a separate row for each small value that this super-step hasn't changed.

        Call this method if the state has too many small values for one row. The parent checkpoint's
        row may contain the only copies of these values. If the parent checkpoint's row is known to
        contain no values, no rows are added.
        """
        self.without_inline = head["id"]
        parent = self.ref.checkpoint_id
        if self.cached is not None and parent is not None and self.cached.without_inline == parent:
            return
        stored = head["channel_versions"]
        for channel in values.keys() - new_versions.keys():
            if channel in stored and inline_values.is_short(channel, values[channel]):
                self._blobs.append(self._build_blob(channel, stored[channel], values[channel]))

    def _encode_head(self, head: version_deltas.Head) -> bytes:
        if self.cached is None or not version_deltas.is_wide(head):
            return codec.encode_record(head)
        record, self.base, row = version_deltas.encode_head(head, self.cached.base)
        if row is not None:
            self._blobs.append((self.ref.ns, *self.base.key, row, digest(row)))
        return codec.encode_record(record)

    def add_grown(self, channel: str, grown: AppendedValue) -> None:
        """Add the final value of a channel to which the run has added entries.

        No row is added if the value equals the stored value, which may consist of several deltas.
        """
        tip = None if self.cached is None else self.cached.tips.get(channel)
        if tip is None or tip.version != grown.version or not self._equals_stored(grown.value, tip):
            data = pack_channel(channel, grown.value)
            (data, its_digest), tip = value_deltas.encode_version(None, grown.version, data)
            self._corrected.append(self._row(channel, grown.version, data, its_digest))
        self.grown[channel] = tip.close()

    def _build_blob(
        self,
        channel: str,
        version: Version,
        value: Any,
        added: Mapping[str, AddedEntries] | None = None,
    ) -> Row:
        tip = None if self.cached is None else self.cached.tips.get(channel)
        more = added and added.get(channel)
        if (
            tip is not None
            and more
            and (row := self._build_delta_row(channel, version, tip, more, value))
        ):
            return row
        data = pack_channel(channel, value, self._shared)
        if self.cached is None or not value_deltas.may_grow(data):
            return self._row(channel, version, data, digest(data))
        is_open = added is not None and not self._is_last
        (data, its_digest), tip = value_deltas.encode_version(tip, version, data, keep_open=is_open)
        self.grown[channel] = tip
        return self._row(channel, version, data, its_digest)

    def _build_delta_row(
        self,
        channel: str,
        version: Version,
        tip: value_deltas.ValueTip,
        added: AddedEntries,
        value: Any,
    ) -> Row | None:
        """Return a row with only the added entries, or None if the whole value must be stored.

        In the last commit of a run, the whole value must be stored if it differs from the value
        that is restored from the deltas.
        """
        if tip.open is None or tip.version != added.version or self._shared is None:
            return None
        encoded = self._shared.encode_added(tip.open.extent, added, len(value))
        if encoded is None:
            return None
        (data, its_digest), grown = value_deltas.encode_added(tip, version, *encoded)
        if self._is_last:
            if not self._equals_stored(value, grown):
                return None
            grown = grown.close()
        self.grown[channel] = grown
        return self._row(channel, version, data, its_digest)

    def _equals_stored(self, value: Any, tip: value_deltas.ValueTip) -> bool:
        """Return whether a value equals the value that is restored from the stored deltas."""
        encoder = codec if self._shared is None else self._shared
        try:
            return tip.matches(encoder.encode_entries(value, tip.size))
        except PayloadError:
            return False

    def _row(self, channel: str, version: Version, data: bytes, its_digest: str) -> Row:
        if self._key_ring is not None:
            head = value_deltas.head_size(data)
            data, its_digest = encrypt_row(data, its_digest, head, self._key_ring)
        return self.ref.ns, channel, version, data, its_digest

    def write(self, thread: int, batch: WriteBatch) -> None:
        """Add the rows of this commit to the batch."""
        for statement, rows in (
            (queries.KEEP_WRITES, self._kept),
            (queries.REPLACE_WRITES, self._replaced),
            (queries.KEEP_BLOBS, self._blobs),
            (queries.REPLACE_BLOBS, self._corrected),
            (queries.REPLACE_CHECKPOINTS, self._checkpoints),
        ):
            if rows:
                batch.insert(statement, [(thread, *row) for row in rows])


def _group_by_slot(writes: Sequence[tuple[str, Any]]) -> dict[int, list[tuple[str, Any]]]:
    """Group a task's writes by slot, the number of the row in which a write is stored.

    All writes to channels have the same slot. Each kind of control write, such as the resume
    values, has a separate slot.
    """
    slots: dict[int, list[tuple[str, Any]]] = {}
    for write in writes:
        slot = CONTROL_SLOTS.get(write[0], inline_writes.UNIT)
        if slot == inline_writes.UNIT:
            slots.setdefault(inline_writes.UNIT, []).append(write)
        else:
            slots[slot] = [write]
    return slots
