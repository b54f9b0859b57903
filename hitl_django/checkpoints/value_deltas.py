"""Deltas of growing lists and dicts.

A thread's messages grow with each super-step. If the list were stored completely in each
super-step, n super-steps would store n² / 2 messages. A version that only adds entries to the
previous version is therefore stored as a delta, if its size is at least ``MIN_BYTES``. The delta
contains the added entries, and refers to the version to which they are added.

The parts of a value are its first complete version and the deltas that follow. Every
``SEAL_INTERVAL`` th part is a seal. A seal contains all entries added since the previous seal, and
lists all earlier seals. Each entry is therefore stored twice at most, and a value with n parts is
read from at most ``SEAL_INTERVAL + n / SEAL_INTERVAL`` rows.

Growth is detected by comparing encoded bytes, unless the run has tracked the added entries. The
digest of a part covers the whole value, so a damaged value is rejected when it is restored.

A part consists of the following fields. Numbers are big-endian.

- 0xC1, with which no msgpack value begins
- the kind: 1 for a list, 2 for a list's seal, 3 for a dict, 4 for a dict's seal
- the versions of the newest seal and of the row that the part continues; for a seal, both are the
  version of the previous seal
- the number of entries of the value
- the number of listed seals, and their versions
- the bytes of the entries

The digest covers all entries of the value, and the part's bytes before its entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import xxhash

from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import (
    Extent,
    digest,
    digest_parts,
    find_extent,
    has_entries,
    head_length,
    is_dict,
)

from .encrypted_rows import is_encrypted

MIN_BYTES = 2048  # Smaller values are always stored whole.
SEAL_INTERVAL = 64  # The number of parts from one seal to the next.

HEAD = struct.Struct(">BBqqII")
_MARK, _DELTA, _SEAL = 0xC1, 1, 2
_DICTS = 2  # The difference between the kinds of a dict and of a list.
_MARKED = bytes([_MARK])

Stored = tuple[bytes, str]  # The data of a row and its digest.
Rows = Mapping[tuple[str, int], Stored]  # Stored rows by channel and version.


class OpenValue(NamedTuple):
    """The part of a ValueTip that is needed only while a run may add entries to the value."""

    extent: Extent
    hash: Any  # The xxh3_128 hash of all entries.
    unsealed: tuple[bytes, ...]  # The entries since the newest seal.


class ValueTip(NamedTuple):
    """The newest stored version of a list or dict.

    The next version may be stored as a delta of this version.
    """

    version: int
    is_dict: bool
    size: int  # The bytes of all entries.
    digest: bytes
    # The versions of the seals, including the first version, which is whole.
    seals: tuple[int, ...]
    sealed: int  # The bytes of the entries up to the newest seal.
    parts: int  # The number of parts since the newest seal.
    open: OpenValue | None = None  # Set only during a run.

    def matches(self, entries: Iterable[bytes | memoryview]) -> bool:
        """Return whether ``entries`` are the encoded bytes of all entries of this value."""
        return digest_parts(entries) == self.digest

    def close(self) -> ValueTip:
        """Return a copy without the state that is needed only during a run."""
        return self._replace(open=None)


class ValueDelta(NamedTuple):
    """The head of a delta: the fields before the bytes of its entries."""

    kind: int
    seal: int
    before: int
    length: int
    named: int

    @property
    def size(self) -> int:
        """The number of bytes before the entries."""
        return HEAD.size + 8 * self.named

    @property
    def is_seal(self) -> bool:
        return self.kind in (_SEAL, _SEAL + _DICTS)

    def restore_head(self) -> bytes:
        """Return the msgpack header of the whole list or dict."""
        return Extent(self.kind > _DICTS, self.length, 0, 0).head


def encode_version(
    tip: ValueTip | None, version: int, data: bytes, *, keep_open: bool = False
) -> tuple[Stored, ValueTip]:
    """Return the row to store for a new version of a list or dict, and the version's ValueTip.

    A ValueTip describes a stored version, so that the next version can be stored as a delta.
    ``data`` is the encoded value. ``tip`` describes the previous version. If the value begins with
    the entries of the previous version, the row is a delta. Otherwise, the row is the whole value.
    ``keep_open`` is true if the run continues and may add entries to the value.
    """
    extent = find_extent(data)
    entries = memoryview(data)[head_length(data) :]
    entries_hash = xxhash.xxh3_128()
    if tip is not None and tip.size <= len(entries) and tip.is_dict == extent.is_dict:
        entries_hash.update(entries[: tip.size])
        if entries_hash.digest() == tip.digest:
            entries_hash.update(entries[tip.size :])
            grown = OpenValue(extent, entries_hash, (bytes(entries[tip.sealed :]),))
            stored, tip = _add(tip, version, bytes(entries[tip.size :]), grown)
            return stored, tip if keep_open else tip.close()
        entries_hash.reset()
    entries_hash.update(entries)
    size, its_digest = len(entries), entries_hash.digest()
    whole = OpenValue(extent, entries_hash, ()) if keep_open else None
    tip = ValueTip(version, extent.is_dict, size, its_digest, (version,), size, 0, whole)
    return (data, digest(data)), tip


def encode_added(
    tip: ValueTip, version: int, entries: bytes, extent: Extent
) -> tuple[Stored, ValueTip]:
    """Return the row to store for a list or dict to which a run has added ``entries``.

    The row is a delta, which doesn't contain the whole value. Also return a ValueTip, which
    describes the new version. ``tip`` describes the previous version. ``extent`` is the size of the
    value with the added entries.
    """
    assert tip.open is not None
    entries_hash = tip.open.hash.copy()
    entries_hash.update(entries)
    kept = OpenValue(extent, entries_hash, (*tip.open.unsealed, entries))
    return _add(tip, version, entries, kept)


def _add(tip: ValueTip, version: int, entries: bytes, kept: OpenValue) -> tuple[Stored, ValueTip]:
    newest, extent = tip.seals[-1], kept.extent
    seals, sealed, parts = tip.seals, tip.sealed, tip.parts + 1
    base = _DICTS if extent.is_dict else 0
    if parts < SEAL_INTERVAL:
        head = HEAD.pack(_MARK, base + _DELTA, newest, tip.version, extent.length, 0)
    else:
        head = HEAD.pack(_MARK, base + _SEAL, newest, newest, extent.length, len(seals))
        head += struct.pack(f">{len(seals)}q", *seals)
        entries = b"".join(kept.unsealed)
        seals, sealed, parts, kept = (*seals, version), extent.size, 0, kept._replace(unsealed=())
    its_digest = kept.hash.digest()
    grown = ValueTip(version, extent.is_dict, extent.size, its_digest, seals, sealed, parts, kept)
    return (head + entries, _digest_delta(kept.hash, head)), grown


def read_delta(data: bytes) -> ValueDelta | None:
    """Return the head of a stored delta, or None if the bytes are a whole value."""
    if data[:1] != _MARKED or is_encrypted(data):
        return None
    if len(data) < HEAD.size or not _DELTA <= data[1] <= _SEAL + _DICTS:
        raise CorruptPayloadError("Stored value delta is corrupt.")
    return ValueDelta(*HEAD.unpack_from(data)[1:])


def head_size(data: bytes) -> int:
    """Return the number of bytes before a delta's entries, or 0 if the bytes are a whole value."""
    part = read_delta(data)
    return 0 if part is None else part.size


def find_seals(rows: Rows) -> set[tuple[str, int]]:
    """Return the channel and version of each earlier seal to which a seal in ``rows`` refers.

    A seal is a part with all entries that were added since the previous seal.
    """
    named = set()
    for (channel, _), (data, _) in rows.items():
        part = read_delta(data)
        if part is not None and part.is_seal:
            named |= {(channel, version) for version in _read_seals(part, data)}
    return named


def restore_value(channel: str, version: int, rows: Rows) -> tuple[bytes, ValueTip]:
    """Restore the encoded bytes of a list or dict from the rows of its parts.

    Return the bytes, and a ValueTip that describes the version for later deltas.

    Raises:
        CorruptPayloadError: a row is missing or damaged.
    """
    *path, (first, _, base) = _trace(channel, version, rows)
    added = [data[part.size :] for _, part, data in reversed(path)]
    entries = b"".join([base[head_length(base) :], *added])
    entries_hash = xxhash.xxh3_128(entries)
    data, stored = rows[channel, version]
    part = path[0][1] if path else None
    found = digest(data) if part is None else _digest_delta(entries_hash, data[: part.size])
    since = [data for _, one, data in path if not one.is_seal]
    seals = (first, *(row[0] for row in reversed(path[len(since) :])))
    if found != stored or (part is not None and not _matches_seals(part, data, seals)):
        raise CorruptPayloadError(f"Stored channel {channel!r} is corrupt: digest mismatch.")
    if part is not None:
        data = part.restore_head() + entries
    size = len(entries)
    sealed = size - sum(len(one) - HEAD.size for one in since)
    its_digest = entries_hash.digest()
    tip = ValueTip(version, is_dict(data), size, its_digest, seals, sealed, len(since))
    return data, tip


def _matches_seals(part: ValueDelta, data: bytes, seals: tuple[int, ...]) -> bool:
    """Return whether the versions of the restored seals are the versions that the delta lists."""
    if part.is_seal:
        return _read_seals(part, data) == seals[:-1]
    return part.seal == seals[-1]


def _trace(channel: str, version: int, rows: Rows) -> list[tuple[int, Any, bytes]]:
    """Return the version, head and data of each part of a value, newest first.

    The last part is a whole value.
    """
    path: list[tuple[int, Any, bytes]] = []
    while (row := rows.get((channel, version))) is not None:
        part = read_delta(row[0])
        path.append((version, part, row[0]))
        if part is None:
            return path
        if part.before >= version:
            break
        version = part.before
    raise CorruptPayloadError(f"Stored channel {channel!r} is missing part of its list.")


def _read_seals(part: ValueDelta, data: bytes) -> tuple[int, ...]:
    if len(data) < part.size:
        raise CorruptPayloadError("Stored value delta is corrupt.")
    return struct.unpack_from(f">{part.named}q", data, HEAD.size)


def is_delta(data: bytes) -> bool:
    return data[:1] == _MARKED


def may_grow(data: bytes) -> bool:
    """Return whether the bytes encode a list or dict that is large enough to store deltas of it."""
    return len(data) >= MIN_BYTES and has_entries(data)


def _digest_delta(entries_hash: Any, head: bytes) -> str:
    whole_hash = entries_hash.copy()
    whole_hash.update(head)
    text: str = whole_hash.hexdigest()
    return text
