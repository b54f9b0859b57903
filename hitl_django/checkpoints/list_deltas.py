"""Deltas of lists that grow: stored by what was added, and restored as one value.

A thread's messages grow by a few in each super-step. Stored whole each time, a thread of n steps
holds n² / 2 of them. So from ``LEAST`` bytes on a version whose bytes begin with those of the one
before is stored as a delta: what was added, and which version it continues. Every ``EACH`` th part
is a seal, which holds all that was added since the seal before it and names every earlier one.
Each item is stored twice, however long the list, and a list of n parts is read from the
``EACH + n / EACH`` rows at most that lead to its first, whole version.

Nothing is taken on trust: whether a list has grown is seen from its encoded bytes, and the digest
of a part is that of the whole value, which is put together again byte for byte, or refused.

A part is 0xC1, which no msgpack begins with; 1, or 2 for a seal; the versions of the newest seal
and of the row it continues (of a seal, both are the seal before it); the length of the list; how
many seals it names; their versions; and the bytes of the items. Numbers are big-endian. Its digest
is that of all items of the list and of what stands before its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import xxhash

from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import ListExtent, digest, list_head, list_head_size, measure_list

from .encrypted_rows import is_encrypted

MIN_BYTES = 2048  # bytes of a list that is stored whole in any case
SEAL_INTERVAL = 64  # parts from one seal to the next

HEAD = struct.Struct(">BBqqII")
_MARK, _DELTA, _SEAL = 0xC1, 1, 2
_MARKED = bytes([_MARK])

Stored = tuple[bytes, str]  # a row's data and its digest
Rows = Mapping[tuple[str, int], Stored]  # by channel and version


class OpenList(NamedTuple):
    """What is kept of a list while a run adds to it, so that nothing else of it needs a look."""

    extent: ListExtent
    hash: Any  # xxh3_128 of all items
    unsealed: tuple[bytes, ...]  # the items since the newest seal


class ListTip(NamedTuple):
    """What the next version of a list may continue: a stored version, known by its items."""

    version: int
    size: int  # of all items, in bytes
    digest: bytes
    seals: tuple[int, ...]  # the first, whole version among them
    sealed: int  # bytes of the items up to the newest seal
    parts: int  # since then
    open: OpenList | None = None  # while a run goes on

    def matches(self, data: bytes) -> bool:
        """Returns whether an encoded list is what is stored."""
        items = memoryview(data)[list_head_size(data) :]
        return len(items) == self.size and xxhash.xxh3_128_digest(items) == self.digest

    def close(self) -> ListTip:
        """Returns what is kept of it when the run has ended."""
        return self._replace(open=None)


class ListDelta(NamedTuple):
    """A delta's head."""

    kind: int
    seal: int
    before: int
    length: int
    named: int

    @property
    def size(self) -> int:
        """The bytes before the items."""
        return HEAD.size + 8 * self.named


def encode_list(
    tip: ListTip | None, version: int, data: bytes, *, keep_open: bool = False
) -> tuple[Stored, ListTip]:
    """Returns the row of a list that is encoded as ``data``: a delta, or all of it.

    With ``keep_open`` the run goes on, and may add to the list.
    """
    extent = measure_list(data)
    assert extent is not None
    items = memoryview(data)[list_head_size(data) :]
    items_hash = xxhash.xxh3_128()
    if tip is not None and tip.size <= len(items):
        items_hash.update(items[: tip.size])
        if items_hash.digest() == tip.digest:
            items_hash.update(items[tip.size :])
            grown = OpenList(extent, items_hash, (bytes(items[tip.sealed :]),))
            stored, tip = _add(tip, version, bytes(items[tip.size :]), grown)
            return stored, tip if keep_open else tip.close()
        items_hash.reset()
    items_hash.update(items)
    size = len(items)
    kept = OpenList(extent, items_hash, ()) if keep_open else None
    tip = ListTip(version, size, items_hash.digest(), (version,), size, 0, kept)
    return (data, digest(data)), tip


def encode_added(
    tip: ListTip, version: int, items: bytes, extent: ListExtent
) -> tuple[Stored, ListTip]:
    """Returns the row of an open list that ``items`` were added to."""
    assert tip.open is not None
    items_hash = tip.open.hash.copy()
    items_hash.update(items)
    kept = OpenList(extent, items_hash, (*tip.open.unsealed, items))
    return _add(tip, version, items, kept)


def _add(tip: ListTip, version: int, items: bytes, kept: OpenList) -> tuple[Stored, ListTip]:
    newest, extent = tip.seals[-1], kept.extent
    seals, sealed, parts = tip.seals, tip.sealed, tip.parts + 1
    if parts < SEAL_INTERVAL:
        head = HEAD.pack(_MARK, _DELTA, newest, tip.version, extent.length, 0)
    else:
        head = HEAD.pack(_MARK, _SEAL, newest, newest, extent.length, len(seals))
        head += struct.pack(f">{len(seals)}q", *seals)
        items = b"".join(kept.unsealed)
        seals, sealed, parts, kept = (*seals, version), extent.size, 0, kept._replace(unsealed=())
    its_digest = kept.hash.digest()
    grown = ListTip(version, extent.size, its_digest, seals, sealed, parts, kept)
    return (head + items, _digest_delta(kept.hash, head)), grown


def read_delta(data: bytes) -> ListDelta | None:
    """Returns the head of a delta; None where the row holds a whole value."""
    if data[:1] != _MARKED or is_encrypted(data):
        return None
    if len(data) < HEAD.size or data[1] not in (_DELTA, _SEAL):
        raise CorruptPayloadError("A stored part of a list is damaged.")
    return ListDelta(*HEAD.unpack_from(data)[1:])


def head_size(data: bytes) -> int:
    """Returns how many bytes of a row stand before a delta's items; 0 of a whole value."""
    part = read_delta(data)
    return 0 if part is None else part.size


def find_seals(rows: Rows) -> set[tuple[str, int]]:
    """Returns channel and version of the seals that those among the rows name."""
    named = set()
    for (channel, _), (data, _) in rows.items():
        part = read_delta(data)
        if part is not None and part.kind == _SEAL:
            named |= {(channel, version) for version in _read_seals(part, data)}
    return named


def restore_list(channel: str, version: int, rows: Rows) -> tuple[bytes, ListTip]:
    """Restores the bytes of a list from its deltas, or raises CorruptPayloadError."""
    *path, (first, _, base) = _trace(channel, version, rows)
    added = [data[part.size :] for _, part, data in reversed(path)]
    pieces = [base[list_head_size(base) :], *added]
    items = b"".join(pieces)
    items_hash = xxhash.xxh3_128(items)
    data, stored = rows[channel, version]
    part = path[0][1] if path else None
    found = digest(data) if part is None else _digest_delta(items_hash, data[: part.size])
    since = [data for _, one, data in path if one.kind == _DELTA]
    seals = (first, *(row[0] for row in reversed(path[len(since) :])))
    if found != stored or (part is not None and not _matches_seals(part, data, seals)):
        raise CorruptPayloadError(
            f"The stored channel {channel!r} is damaged: its digest doesn't match."
        )
    sealed = len(items) - sum(len(data) - HEAD.size for data in since)
    tip = ListTip(version, len(items), items_hash.digest(), seals, sealed, len(since))
    return (data if part is None else list_head(part.length) + items), tip


def _matches_seals(part: ListDelta, data: bytes, seals: tuple[int, ...]) -> bool:
    """Returns whether the way back led over the seals that a sound delta names."""
    if part.kind == _SEAL:
        return _read_seals(part, data) == seals[:-1]
    return part.seal == seals[-1]


def _trace(channel: str, version: int, rows: Rows) -> list[tuple[int, Any, bytes]]:
    """Returns version, head and data of what a value is made of, the whole one last."""
    path: list[tuple[int, Any, bytes]] = []
    while (row := rows.get((channel, version))) is not None:
        part = read_delta(row[0])
        path.append((version, part, row[0]))
        if part is None:
            return path
        if part.before >= version:
            break
        version = part.before
    raise CorruptPayloadError(f"The stored channel {channel!r} has lost a part of its list.")


def _read_seals(part: ListDelta, data: bytes) -> tuple[int, ...]:
    if len(data) < part.size:
        raise CorruptPayloadError("A stored part of a list is damaged.")
    return struct.unpack_from(f">{part.named}q", data, HEAD.size)


def is_delta(data: bytes) -> bool:
    """Returns whether a row holds a delta."""
    return data[:1] == _MARKED


def is_long_list(data: bytes) -> bool:
    """Returns whether a value's bytes are those of a list that a delta may continue."""
    return len(data) >= MIN_BYTES and (data[0] >> 4 == 0x9 or data[0] in (0xDC, 0xDD))


def _digest_delta(items_hash: Any, head: bytes) -> str:
    whole_hash = items_hash.copy()
    whole_hash.update(head)
    text: str = whole_hash.hexdigest()
    return text
