"""Hostile bytes in rows: rejected or read within limits of time and memory.

The digests of these bytes are correct, because digests detect damage but not forgery.
"""

from __future__ import annotations

import pytest

from tests.bounded import REFUSED, TAKEN, only_where_bounded, run_bounded

PREAMBLE = """
import os, zlib
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
import django
django.setup()
import xxhash
from types import SimpleNamespace
from hitl_django.contrib.archive import document
from hitl_django.contrib.archive.compression_dictionary import DICTIONARY
from hitl_django.checkpoints import inline_values, inline_writes, value_deltas, version_deltas
from hitl_django.checkpoints.codec import codec
from hitl_django.engine.errors import PayloadError
from hitl_django.engine.serde import MAX_BYTES, digest

# Values that are stored by what was added.
def whole(entries):
    return b"\\xdd" + len(entries).to_bytes(4, "big") + entries
def delta(version, entries, before=0, length=None, kind=1, named=0, all_entries=None):
    head = value_deltas.HEAD.pack(0xC1, kind, 0, before, length or len(entries), named)
    hashed = xxhash.xxh3_128(entries if all_entries is None else all_entries)
    hashed.update(head)
    return head + entries, hashed.hexdigest()
def chain(count, entries, base=b"\\x07", length=None):
    rows = {("c", 0): (whole(base), digest(whole(base)))}
    for version in range(1, count):
        rows["c", version] = delta(version, entries, version - 1)
    everything = base + entries * count
    length = length or len(everything)
    rows["c", count] = delta(count, entries, count - 1, length, all_entries=everything)
    return rows
def read(rows):
    named = value_deltas.find_seals(rows)
    channel, version = max(rows)
    return codec.decode(value_deltas.restore_value(channel, version, rows)[0])

# Versions that are stored by what differs from a base.
def head(record, versions=None, seen=None):
    base = version_deltas.VersionBase(("k", 1), versions or {}, seen or {})
    return version_deltas.restore_head(codec.decode(codec.encode(record)), {("k", 1): base})
def base(value):
    data = codec.encode(value)
    return version_deltas.decode_base(
        (version_deltas.PREFIX + digest(data), 1), data, digest(data)
    )
rest = {"channel_versions": {}, "versions_seen": {}}

# Documents of the archive.
def archived(data):
    return document.read_document(SimpleNamespace(pk=1, document=data, digest=digest(data)))
def zeros(times, start):
    packer = zlib.compressobj(zdict=DICTIONARY)
    first = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    sixteen = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + sixteen * times
"""

CASES = {
    "a list of a hundred thousand parts": ("read(chain(100_000, b'\\x07'))", TAKEN),
    "a list of parts that are 20 MB together": (
        "read(chain(20, b'\\x07' * (1 << 20)))", REFUSED,
    ),
    "parts that are a million lists": ("read(chain(20, b'\\x90' * 60_000))", REFUSED),
    "a part that says it has four billion entries": (
        "read(chain(1, b'\\x07', length=(1 << 32) - 1))", REFUSED,
    ),
    "a seal that names four billion": (
        "read({('c', 5): delta(5, b'\\x07', 0, 1, kind=2, named=(1 << 32) - 1)})", REFUSED,
    ),
    "a part that continues itself": ("read({('c', 5): delta(5, b'\\x07', 5)})", REFUSED),
    "a part that continues what is later": (
        "read({('c', 5): delta(5, b'\\x07', 4), ('c', 4): delta(4, b'\\x07', 5)})", REFUSED,
    ),
    "a part whose base is gone": ("read({('c', 5): delta(5, b'\\x07', 4)})", REFUSED),
    "a part with half a head": ("read({('c', 5): (b'\\xc1\\x01\\x00', '')})", REFUSED),
    "versions that differ in a million": (
        "head([{**rest, 'channel_versions': {str(n): n for n in range(300_000)}}, 'k', 1, [], []])",
        TAKEN,
    ),
    "versions without what is gone": ("head([rest, 'k', 1, ['a'], []])", REFUSED),
    "versions of half a record": ("head([rest, 'k', 1])", REFUSED),
    "versions of a record of nothing": ("head([])", REFUSED),
    "versions of a number": ("head([7, 'k', 1, [], []])", REFUSED),
    "versions whose base is gone": ("head([rest, 'z', 1, [], []])", REFUSED),
    "a base of three": ("base([{}, {}, {}])", REFUSED),
    "a base of nothing": ("base(None)", REFUSED),
    "a checkpoint that is a number": ("head(7)", REFUSED),
    "a base with lists for versions": ("base([[], []])", REFUSED),
    "writes of a task of one field": ("inline_writes.unpack_tasks(codec.encode([['a']]))", REFUSED),
    "writes of no task": ("inline_writes.unpack_tasks(codec.encode([7]))", REFUSED),
    "writes that are a number": ("inline_writes.unpack_tasks(codec.encode(7))", REFUSED),
    "writes of a task whose bytes are a text": (
        "inline_writes.decode_writes('c', codec.encode([['a', 'b', 'text']]))", REFUSED,
    ),
    "writes in writes": (
        "inline_writes.decode_writes('c', codec.encode([['a', 'b', b'\\x91' * 1000]]))", REFUSED,
    ),
    "a million tasks": (
        "inline_writes.unpack_tasks(codec.encode([['a', 'b', b'']] * 900_000))", TAKEN,
    ),
    "scalars that are a number": ("inline_values.unpack(codec.encode(7))", REFUSED),
    "scalars in an empty list": ("inline_values.unpack(codec.encode([]))", REFUSED),
    "a document of gigabytes of nothing": ("archived(zeros(300, b''))", REFUSED),
    "a document of gigabytes in one value": ("archived(zeros(300, b'\\xff' * 4))", REFUSED),
    "a document that is not whole": ("archived(zeros(0, b'\\0\\0'))", REFUSED),
    "a document of one byte": ("archived(b'x')", REFUSED),
}  # fmt: skip


@pytest.mark.promise("P14")
@pytest.mark.promise("P21")
@only_where_bounded
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_hostile_row_is_read_or_rejected_within_memory_and_time_limits(name: str) -> None:
    case, expected = CASES[name]
    assert run_bounded(PREAMBLE, case) == expected
