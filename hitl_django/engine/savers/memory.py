"""A saver that stores threads in memory, for tests and temporary runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from threading import RLock
from typing import Any, Self

from ..constants import CONTROL_SLOTS, NULL_TASK_ID
from ..errors import PayloadError, ThreadNotFound
from ..serde import (
    Codec,
    Extent,
    SerializerProtocol,
    UntypedSerializerProtocol,
    digest_parts,
    find_codec,
    find_extent,
    has_entries,
    head_length,
    maybe_add_typed_methods,
    register_type,
)
from ..types import RunnableConfig, VersionT
from .checkpoint import (
    AddedEntries,
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    PendingWrite,
    TaskWrites,
    Version,
)
from .pruning import (
    DELTA_COUNTERS,
    KEEP_LATEST,
    CheckpointKey,
    add_ancestors,
    check_prune,
    keep_latest,
)
from .shared_values import SharedValues

#: A task's writes in one slot: the task's path, and the encoded writes in parts.
_Row = tuple[str, Sequence[bytes]]
_Rows = list[tuple[tuple[str, int], _Row]]
#: The minimum number of bytes of a list or dict for which only additions are stored.
MIN_BYTES = 2048


class _GrownValue:
    """The encoded value of a growing list or dict.

    All versions of the value share the bytes of their common entries. Repeated items of a list also
    share their bytes.
    """

    __slots__ = ("count", "extent", "pieces")

    def __init__(self, pieces: list[bytes], count: int, extent: Extent) -> None:
        self.pieces, self.count, self.extent = pieces, count, extent

    def add(self, entries: bytes, extent: Extent) -> _GrownValue:
        """Return the value with ``entries`` appended.

        ``entries`` are encoded bytes. ``extent`` is the size of the extended value.
        """
        pieces = self.pieces
        if len(pieces) > self.count:
            pieces = pieces[: self.count]  # Another branch continued from this version.
        pieces.append(entries)
        return _GrownValue(pieces, len(pieces), extent)

    def matches(self, entries: Iterable[bytes | memoryview]) -> bool:
        """Return whether ``entries`` are the encoded bytes of all entries of this value."""
        return digest_parts(self.pieces[: self.count]) == digest_parts(entries)

    def join(self) -> bytes:
        """Return the encoded bytes of the whole value."""
        return self.extent.head + b"".join(self.pieces[: self.count])


_Blob = bytes | _GrownValue
_BlobKey = tuple[str, Version]


def _join(blob: _Blob) -> bytes:
    return blob if isinstance(blob, bytes) else blob.join()


#: This codec always encodes checkpoints without values, even with a custom serializer.
_records = Codec()


class _Stored:
    """A stored checkpoint, encoded as bytes.

    ``record`` contains the checkpoint without the channel values. The garbage collector doesn't
    traverse bytes, so a large number of stored checkpoints doesn't slow it down.
    """

    __slots__ = ("id", "metadata", "parent_id", "record", "writes")

    def __init__(self, id: str, record: bytes, metadata: bytes, parent_id: str | None) -> None:
        self.id, self.record, self.metadata, self.parent_id = id, record, metadata, parent_id
        self.writes: dict[tuple[str, int], _Row] = {}

    def decode(self) -> dict[str, Any]:
        """Return the checkpoint without the channel values."""
        record: dict[str, Any] = _records.decode(self.record)
        return record


class _Namespace:
    """The checkpoints and channel values of one graph of a thread.

    The checkpoints are in the order in which they were stored.
    """

    __slots__ = ("blobs", "checkpoints")

    def __init__(self) -> None:
        self.checkpoints: dict[str, _Stored] = {}
        self.blobs: dict[_BlobKey, _Blob] = {}


# The classes are registered, so that a PersistentDict can store them in a file.


def _dump_stored(stored: _Stored) -> list[Any]:
    return [stored.record, stored.metadata, stored.parent_id, stored.writes]


def _load_stored(body: list[Any]) -> _Stored:
    record, metadata, parent_id, writes = body
    stored = _Stored(_records.decode(record)["id"], record, metadata, parent_id)
    stored.writes = writes
    return stored


def _load_namespace(body: list[Any]) -> _Namespace:
    space = _Namespace()
    space.checkpoints, space.blobs = body
    return space


register_type("hitl_django.stored", _Stored, _dump_stored, _load_stored)
register_type(
    "hitl_django.namespace",
    _Namespace,
    lambda space: [space.checkpoints, {key: _join(blob) for key, blob in space.blobs.items()}],
    _load_namespace,
)


class InMemorySaver(BaseCheckpointSaver[VersionT]):
    """A saver that stores encoded checkpoints in the memory of this process.

    ``serde`` replaces the default codec. ``factory`` creates the dict that contains the threads. If
    the dict is a PersistentDict, its file is written at the end of the saver's ``with`` block. The
    saver doesn't read the file. To read the file, call ``load`` of the PersistentDict.
    """

    thread_bound = False

    def __init__(
        self,
        *,
        serde: SerializerProtocol | UntypedSerializerProtocol | Codec | None = None,
        factory: Callable[[], dict[Any, Any]] = dict,
    ) -> None:
        if isinstance(serde, Codec):
            self.serde = serde  # type: ignore[assignment]
        elif serde is not None:
            self.serde = maybe_add_typed_methods(serde)
        self._codec = find_codec(self.serde)
        self._threads: dict[str, dict[str, _Namespace]] = factory()
        self._lock = RLock()
        cls = type(self)
        #: Whether a subclass overrides put or put_writes, so that all data must be stored through
        #: these methods.
        self._is_extended = (cls.put, cls.put_writes) != (
            InMemorySaver.put,
            InMemorySaver.put_writes,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        threads: Any = self._threads
        if hasattr(threads, "__exit__"):
            threads.__exit__(*exc)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        ref = config["configurable"]
        with self._lock:
            space = self._space(ref)
            if space is None or not space.checkpoints:
                return None
            wanted = ref.get("checkpoint_id") or max(space.checkpoints)
            stored = space.checkpoints.get(wanted)
            if stored is None:
                return None
            ns = ref.get("checkpoint_ns", "")
            return self._tuple(ref["thread_id"], ns, space.blobs, stored)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        count, decode = 0, self._codec.decode
        for thread, ns, blobs, stored in self._select_checkpoints(config, before):
            if limit is not None and count >= limit:
                return
            if filter:
                metadata = decode(stored.metadata)
                if any(metadata.get(key) != value for key, value in filter.items()):
                    continue
            count += 1
            with self._lock:
                saved = self._tuple(thread, ns, blobs, stored)
            yield saved

    def _select_checkpoints(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Sequence[tuple[str, str, dict[_BlobKey, _Blob], _Stored]]:
        """Return the checkpoints that match ``config`` and are older than ``before``, newest first.

        A result contains the thread id, the namespace, the channel values of the namespace, and the
        checkpoint.
        """
        ref = (config or {}).get("configurable", {})
        bound = (before or {}).get("configurable", {}).get("checkpoint_id")
        with self._lock:
            threads = [ref["thread_id"]] if "thread_id" in ref else list(self._threads)
            found = [
                (thread, ns, space.blobs, stored)
                for thread in threads
                for ns, space in self._threads.get(thread, {}).items()
                if ref.get("checkpoint_ns") in (None, ns)
                for stored in space.checkpoints.values()
                if ref.get("checkpoint_id") in (None, stored.id)
                and (bound is None or stored.id < bound)
            ]
        return sorted(found, key=lambda row: row[3].id, reverse=True)

    def _space(self, ref: dict[str, Any]) -> _Namespace | None:
        return self._threads.get(ref["thread_id"], {}).get(ref.get("checkpoint_ns", ""))

    def _tuple(
        self, thread_id: str, ns: str, blobs: dict[_BlobKey, _Blob], stored: _Stored
    ) -> CheckpointTuple:
        kept = stored.decode()
        decode = self._codec.decode
        values = {
            key[0]: decode(_join(blobs[key]))
            for key in kept["channel_versions"].items()
            if key in blobs
        }
        checkpoint: Checkpoint = {
            **kept,  # type: ignore[typeddict-item]
            "channel_values": values,
        }
        parent = stored.parent_id
        return CheckpointTuple(
            _coordinates(thread_id, ns, kept["id"]),
            checkpoint,
            decode(stored.metadata),
            _coordinates(thread_id, ns, parent) if parent else None,
            self._pending(stored),
        )

    def _pending(self, stored: _Stored) -> Sequence[PendingWrite]:
        rows = sorted((path, task_id, slot) for (task_id, slot), (path, _) in stored.writes.items())
        found: list[PendingWrite] = []
        for _, task_id, slot in rows:
            _, parts = stored.writes[task_id, slot]
            written = self._codec.decode(b"".join(parts))
            found += [(task_id, channel, value) for channel, value in written]
        return found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, Version],
    ) -> RunnableConfig:
        self._store(Commit(config, (), checkpoint, metadata, new_versions))
        ref = config["configurable"]
        return _coordinates(ref["thread_id"], ref.get("checkpoint_ns", ""), checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._store(Commit(config, [TaskWrites(task_id, task_path, writes)]))

    def commit(self, commit: Commit) -> None:
        if self._is_extended:
            super().commit(commit)
        else:
            self._store(commit)

    def _store(self, commit: Commit) -> None:
        ref = commit.config["configurable"]
        # All values are encoded before any value is stored, so that an encoding error changes no
        # data.
        shared = SharedValues(self._codec, commit)
        rows: _Rows = []
        for task in commit.writes:
            self._add_rows(rows, task, shared)
        space = self._space(ref)
        blobs: dict[_BlobKey, _Blob] = {}
        checkpoint, stored = commit.checkpoint, None
        grown, is_last = commit.added or {}, commit.outcome is not None
        if checkpoint is not None:
            kept: dict[str, Any] = dict(checkpoint)
            values = kept.pop("channel_values")
            for name, version in (commit.new_versions or {}).items():
                if name not in values:
                    continue
                added, value, blob = grown.get(name), values[name], None
                if added is not None and space is not None:
                    base = space.blobs.get((name, added.version))
                    blob = self._grow_value(base, value, added, shared, is_last=is_last)
                blobs[name, version] = blob or self._encode_channel(name, value, shared)
            metadata = self._codec.encode(commit.metadata or {})
            record = _records.encode_record(kept)
            stored = _Stored(kept["id"], record, metadata, ref.get("checkpoint_id"))
        for name, (version, value) in (commit.grown or {}).items():
            stored_value = None if space is None else space.blobs.get((name, version))
            if not (
                isinstance(stored_value, _GrownValue)
                and self._equals_stored(value, stored_value, shared)
            ):
                blobs[name, version] = self._encode_channel(name, value, shared)
        with self._lock:
            if rows:
                self._keep(ref, rows)
            if stored is not None:
                threads = self._threads.setdefault(ref["thread_id"], {})
                space = threads.setdefault(ref.get("checkpoint_ns", ""), _Namespace())
                space.checkpoints[stored.id] = stored
            if space is not None:
                space.blobs.update(blobs)

    def _encode_channel(self, name: str, value: Any, shared: SharedValues) -> _Blob:
        """Encode a channel's value. If this fails, the error names the channel."""
        if (repeated := shared.encode_repeated(value)) is not None:
            pieces, extent = repeated
            return _GrownValue(pieces, len(pieces), extent)
        try:
            return shared.encode(value)
        except PayloadError:
            self._codec.encode({name: value})
            raise

    def _grow_value(
        self,
        blob: _Blob | None,
        value: Any,
        added: AddedEntries,
        shared: SharedValues,
        *,
        is_last: bool,
    ) -> _GrownValue | None:
        """Return the stored value ``blob``, extended by the added entries.

        Return None if ``blob`` can't be extended. In the last commit of a run (``is_last``), also
        return None if the extended value differs from ``value``.
        """
        if isinstance(blob, bytes) and len(blob) >= MIN_BYTES and has_entries(blob):
            blob = _GrownValue([blob[head_length(blob) :]], 1, find_extent(blob))
        if not isinstance(blob, _GrownValue):
            return None
        more = shared.encode_added(blob.extent, added, len(value))
        if more is None:
            return None
        with self._lock:
            grown = blob.add(*more)
        return None if is_last and not self._equals_stored(value, grown, shared) else grown

    def _equals_stored(self, value: Any, stored: _GrownValue, shared: SharedValues) -> bool:
        try:
            return stored.matches(shared.encode_entries(value, stored.extent.size))
        except PayloadError:
            return False

    def _add_rows(self, rows: _Rows, task: TaskWrites, shared: SharedValues) -> None:
        """Append rows with the encoded writes of a task.

        All channel writes are stored in one row, and each control write in its own row.
        """
        regular = []
        for name, value in task.writes:
            # Lists are encoded natively, while each tuple would be an extension.
            if name not in CONTROL_SLOTS:
                regular.append([name, value])
            else:
                data = self._codec.encode([[name, value]])
                rows.append(((task.task_id, CONTROL_SLOTS[name]), (task.task_path, (data,))))
        if regular:
            rows.append(((task.task_id, 0), (task.task_path, shared.encode_writes(regular))))

    def _keep(self, ref: dict[str, Any], rows: _Rows) -> None:
        space = self._space(ref)
        stored = space and space.checkpoints.get(ref["checkpoint_id"])
        if not stored:
            raise LookupError(f"No checkpoint for these writes: {ref}")
        writes = stored.writes
        for key, row in rows:
            if key[1] != 0 or key[0] == NULL_TASK_ID or key not in writes:
                writes[key] = row

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._threads.pop(str(thread_id), None)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = str(source_thread_id), str(target_thread_id)
        with self._lock:
            if source not in self._threads:
                raise ThreadNotFound(f"Thread {source!r} has no history to copy.")
            if target in self._threads:
                raise ValueError(f"Thread {target!r} already has a history.")
            self._threads[target] = deepcopy(self._threads[source])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs, decode = frozenset(map(str, run_ids)), self._codec.decode
        with self._lock:
            for thread_id, spaces in list(self._threads.items()):
                kept = {
                    (ns, id)
                    for ns, space in spaces.items()
                    for id, stored in space.checkpoints.items()
                    if decode(stored.metadata).get("run_id") not in runs
                }
                self._keep_only(thread_id, kept)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = KEEP_LATEST) -> None:
        with self._lock:
            for thread_id in check_prune(thread_ids, strategy):
                spaces = self._threads.get(thread_id, {})
                heads = {ns: max(space.checkpoints) for ns, space in spaces.items()}
                metadata_by_ns = {
                    ns: (id, self._codec.decode(spaces[ns].checkpoints[id].metadata))
                    for ns, id in heads.items()
                }
                roots = spaces[""].checkpoints if "" in spaces else ()
                kept = keep_latest(metadata_by_ns, roots) if strategy == KEEP_LATEST else set()
                self._keep_only(thread_id, kept)

    def _keep_only(self, thread_id: str, kept: set[tuple[str, str]]) -> None:
        """Delete all checkpoints of a thread except ``kept`` and the ancestors that they need.

        Channel values that no remaining checkpoint uses are also deleted.
        """
        spaces = self._threads.get(thread_id, {})
        kept = self._add_ancestors(spaces, kept)
        for ns, space in list(spaces.items()):
            left = {id: one for id, one in space.checkpoints.items() if (ns, id) in kept}
            named: set[tuple[str, Version]] = set()
            for stored in left.values():
                named |= stored.decode()["channel_versions"].items()
                if stored.parent_id not in left:
                    stored.parent_id = None
            space.checkpoints = left
            space.blobs = {key: data for key, data in space.blobs.items() if key in named}
            if not left:
                del spaces[ns]
        if not spaces:
            self._threads.pop(thread_id, None)

    def _add_ancestors(
        self, spaces: Mapping[str, _Namespace], kept: set[CheckpointKey]
    ) -> set[CheckpointKey]:
        stored = {
            (ns, id): one for ns, space in spaces.items() for id, one in space.checkpoints.items()
        }
        missing = {
            key: counters.keys() & one.decode()["channel_versions"].keys()
            for key, one in stored.items()
            if (counters := self._codec.decode(one.metadata).get(DELTA_COUNTERS))
        }
        return add_ancestors(kept, {key: one.parent_id for key, one in stored.items()}, missing)


def _coordinates(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
        }
    }


MemorySaver = InMemorySaver
