"""Deltas of channel versions in states with many channels, relative to a shared base.

A checkpoint has one entry for every channel (its version), and one entry for every node (the
versions that the node has seen). With hundreds of channels, these entries are many times larger
than the changes of a super-step. If there are at least ``MIN_ENTRIES`` entries, a checkpoint's row
contains the differences from a base, and the key of the base. The base is stored in a row like a
channel's value, under a name derived from its digest. A base never changes, and any checkpoint of
the namespace may refer to it. Reading the bases of a whole page takes one more query.

A difference grows with the number of changed channels. If the differences stored since the base
exceed the size of the base, the next checkpoint creates a new base. For n entries, this happens
after about the square root of 2 n super-steps.

The order of the entries is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import digest

from .codec import codec, verify

MIN_ENTRIES = 64  # Checkpoints with fewer entries are always stored whole.
PREFIX = "__versions__:"  # The prefix of the channel name in a row that contains a base.
_PARTS = 5  # The number of elements in the record of a checkpoint with a base.
_NONE = object()

Versions = dict[str, Any]
Head = dict[str, Any]  # A checkpoint without its channel values.
RowKey = tuple[str, int]  # The channel and version of a row.


class VersionBase(NamedTuple):
    """A stored base: the key of its row, and the versions that it contains."""

    key: RowKey
    versions: Versions
    seen: Versions


def is_wide(head: Head) -> bool:
    """Return whether a checkpoint has so many versions that it should refer to a base."""
    return len(head["channel_versions"]) + len(head["versions_seen"]) >= MIN_ENTRIES


def encode_head(
    head: Head, base: VersionBase | None
) -> tuple[list[Any], VersionBase, bytes | None]:
    """Encode a checkpoint's versions as differences from a base.

    Return the record to store, the base, and the bytes of the base's row. The bytes are None if the
    base is already stored.
    """
    versions, seen = head["channel_versions"], head["versions_seen"]
    row = None
    changes = None if base is None else _changes(versions, seen, base)
    if base is None or changes is None:
        row = codec.encode_record([versions, seen])
        # The newest version finds the base in the index, together with the data stored with it.
        newest = max(versions.values(), default=0)
        # The dicts are copied, because the caller may change them.
        base = VersionBase(
            (PREFIX + digest(row), newest),
            versions.copy(),
            {name: dict(read) for name, read in seen.items()},
        )
        changes = [{}, [], {}, []]
    rest = {**head, "channel_versions": changes[0], "versions_seen": changes[2]}
    return [rest, *base.key, changes[1], changes[3]], base, row


def _changes(versions: Versions, seen: Versions, base: VersionBase) -> list[Any] | None:
    """Return the differences of the versions from the base.

    The differences include the versions that each node has ``seen``. Returns None if there are so
    many differences that a new base should be stored.
    """
    found: list[Any] = []
    for now, then in ((versions, base.versions), (seen, base.seen)):
        found.append({name: one for name, one in now.items() if then.get(name, _NONE) != one})
        found.append([] if then.keys() <= now.keys() else [*(then.keys() - now.keys())])
    size = sum(map(len, found))
    return None if size * size > 2 * (len(base.versions) + len(base.seen)) else found


def base_key(record: Any) -> RowKey | None:
    """Return the key of the base to which a stored checkpoint refers, or None without a base."""
    if type(record) is dict:
        return None
    if type(record) is not list or len(record) != _PARTS:
        raise CorruptPayloadError("Stored checkpoint is corrupt: wrong type.")
    return record[1], record[2]


def decode_base(key: RowKey, data: bytes, stored: str) -> VersionBase:
    """Decode a base from the bytes of its row.

    Raises:
        CorruptPayloadError: the row is damaged.
    """
    found = verify(data, stored, f"base {key[0]!r}")
    if key[0] != PREFIX + stored:
        raise CorruptPayloadError(f"Stored base {key[0]!r} belongs to another checkpoint.")
    maps = codec.decode(found)
    if type(maps) is not list or [*map(type, maps)] != [dict, dict]:
        raise CorruptPayloadError(f"Stored base {key[0]!r} is corrupt: wrong type.")
    return VersionBase(key, *maps)


def restore_head(record: Any, bases: Mapping[RowKey, VersionBase]) -> Head:
    """Return a checkpoint without its channel values, from its record and its base.

    Raises:
        CorruptPayloadError: the record is damaged, or its base is missing.
    """
    key = base_key(record)
    if key is None:
        head: Head = record
        return head
    base = bases.get(key)
    if base is None:
        raise CorruptPayloadError(f"Stored checkpoint is missing its base {key[0]!r}.")
    rest, _, _, gone, unseen = record
    try:
        return {
            **rest,
            "channel_versions": _apply(base.versions, rest["channel_versions"], gone),
            "versions_seen": _apply(base.seen, rest["versions_seen"], unseen),
        }
    except (KeyError, TypeError) as error:
        raise CorruptPayloadError(
            f"Stored checkpoint is corrupt: it does not match its base {key[0]!r}."
        ) from error


def _apply(then: Versions, changed: Versions, gone: list[str]) -> Versions:
    found = {**then, **changed}
    for name in gone:
        del found[name]
    return found
