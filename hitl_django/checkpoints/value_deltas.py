"""Deltas of lists and dicts that grow: stored by what was added, and restored as one value.

A thread's messages grow by a few in each super-step. Stored whole each time, a thread of n steps
holds n² / 2 of them. So from ``MIN_BYTES`` on a version whose bytes begin with those of the one
before is stored as a delta: what was added, and which version it continues. Every
``SEAL_INTERVAL`` th part is a seal, which holds all that was added since the seal before it and
names every earlier one. Each entry is stored twice, however long the value, and one of n parts is
read from the ``SEAL_INTERVAL + n / SEAL_INTERVAL`` rows at most that lead to its first, whole
version.

Whether a value has grown is seen from its encoded bytes, unless the run that goes on has said so
itself. The digest of a part is that of the whole value, which is put together again byte for byte,
or refused.

A part is 0xC1, which no msgpack begins with; its kind: 1, or 2 for a seal, of a list, and 3 or 4 of
a dict; the versions of the newest seal and of the row it continues (of a seal, both are the seal
before it); how many entries the value has; how many seals it names; their versions; and the bytes
of the entries. Numbers are big-endian. Its digest is that of all entries of the value and of what
stands before its own.
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

MIN_BYTES = 2048  # bytes of a value that is stored whole in any case
SEAL_INTERVAL = 64  # parts from one seal to the next

HEAD = struct.Struct(">BBqqII")
_MARK, _DELTA, _SEAL = 0xC1, 1, 2
_DICTS = 2  # a dict's kinds are those of a list and this
_MARKED = bytes([_MARK])

Stored = tuple[bytes, str]  # a row's data and its digest
Rows = Mapping[tuple[str, int], Stored]  # by channel and version


class OpenValue(NamedTuple):
    """What is kept of a value while a run adds to it, so that nothing else of it needs a look."""

    extent: Extent
    hash: Any  # xxh3_128 of all entries
    unsealed: tuple[bytes, ...]  # the entries since the newest seal


class ValueTip(NamedTuple):
    """What the next version of a value may continue: a stored version, known by its entries."""

    version: int
    is_dict: bool
    size: int  # of all entries, in bytes
    digest: bytes
    seals: tuple[int, ...]  # the first, whole version among them
    sealed: int  # bytes of the entries up to the newest seal
    parts: int  # since then
    open: OpenValue | None = None  # while a run goes on

    def matches(self, entries: Iterable[memoryview]) -> bool:
        """Return whether these are the bytes of all of its entries."""
        return digest_parts(entries) == self.digest

    def close(self) -> ValueTip:
        """Return what is kept of it when the run has ended."""
        return self._replace(open=None)


class ValueDelta(NamedTuple):
    """A delta's head."""

    kind: int
    seal: int
    before: int
    length: int
    named: int

    @property
    def size(self) -> int:
        """The bytes before the entries."""
        return HEAD.size + 8 * self.named

    @property
    def is_seal(self) -> bool:
        return self.kind in (_SEAL, _SEAL + _DICTS)

    def restore_head(self) -> bytes:
        """Return the head of the whole value."""
        return Extent(self.kind > _DICTS, self.length, 0, 0).head


def encode_version(
    tip: ValueTip | None, version: int, data: bytes, *, keep_open: bool = False
) -> tuple[Stored, ValueTip]:
    """Return the row of a value that is encoded as ``data``: a delta, or all of it.

    With ``keep_open`` the run goes on, and may add to the value.
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
    """Return the row of an open value that ``entries`` were added to."""
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
    """Return the head of a delta; None where the row holds a whole value."""
    if data[:1] != _MARKED or is_encrypted(data):
        return None
    if len(data) < HEAD.size or not _DELTA <= data[1] <= _SEAL + _DICTS:
        raise CorruptPayloadError("Stored value delta is corrupt.")
    return ValueDelta(*HEAD.unpack_from(data)[1:])


def head_size(data: bytes) -> int:
    """Return how many bytes of a row stand before a delta's entries; 0 of a whole value."""
    part = read_delta(data)
    return 0 if part is None else part.size


def find_seals(rows: Rows) -> set[tuple[str, int]]:
    """Return channel and version of the seals that those among the rows name."""
    named = set()
    for (channel, _), (data, _) in rows.items():
        part = read_delta(data)
        if part is not None and part.is_seal:
            named |= {(channel, version) for version in _read_seals(part, data)}
    return named


def restore_value(channel: str, version: int, rows: Rows) -> tuple[bytes, ValueTip]:
    """Restore the bytes of a value from its deltas, or raise CorruptPayloadError."""
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
    """Return whether the way back led over the seals that a sound delta names."""
    if part.is_seal:
        return _read_seals(part, data) == seals[:-1]
    return part.seal == seals[-1]


def _trace(channel: str, version: int, rows: Rows) -> list[tuple[int, Any, bytes]]:
    """Return version, head and data of what a value is made of, the whole one last."""
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
    """Return whether a row holds a delta."""
    return data[:1] == _MARKED


def may_grow(data: bytes) -> bool:
    """Return whether a value's bytes are those of a list or dict that a delta may continue."""
    return len(data) >= MIN_BYTES and has_entries(data)


def _digest_delta(entries_hash: Any, head: bytes) -> str:
    whole_hash = entries_hash.copy()
    whole_hash.update(head)
    text: str = whole_hash.hexdigest()
    return text
