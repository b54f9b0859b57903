"""Hostile bytes and values: rejected or read within limits of time and memory.

Each case runs in its own process with limits. The limits are many times the usual cost, so they
detect only work that multiplies.
"""

from __future__ import annotations

import pytest

from tests.bounded import REFUSED, TAKEN, only_where_bounded, run_bounded

PREAMBLE = """
from hitl_django.engine.errors import PayloadError
from hitl_django.engine.serde import MAX_BYTES, Codec
codec = Codec()
def deep(levels, value=None):
    for _ in range(levels):
        value = [value]
    return value
def own():
    value = []
    value.append(value)
    return value
def list_of(count, item):
    return b"\\xdd" + count.to_bytes(4, "big") + item * count
def nested_extensions(count):
    heads = (b"\\xc9" + (6 * n + 1).to_bytes(4, "big") + b"\\x01" for n in range(count, 0, -1))
    return b"".join(heads) + b"\\xc0"
"""

CASES = {
    # Effects of stored bytes on a reader.
    "16 MB of empty lists": ("codec.decode(list_of(MAX_BYTES - 5, b'\\x90'))", REFUSED),
    "16 MB of empty dicts": ("codec.decode(list_of(MAX_BYTES - 5, b'\\x80'))", REFUSED),
    "dicts of one": ("codec.decode(list_of(5_000_000, b'\\x81\\xa0\\xc0'))", REFUSED),
    "tuples": ("codec.decode(list_of(4_000_000, b'\\xc7\\x01\\x01\\x90'))", REFUSED),
    "a million lists": ("codec.decode(list_of(1_000_001, b'\\x90'))", REFUSED),
    "fewer lists": ("codec.decode(list_of(999_999, b'\\x90'))", TAKEN),
    "16 MB of numbers": ("codec.decode(list_of(MAX_BYTES - 5, b'\\x07'))", TAKEN),
    "numbers that look like lists": (
        "codec.decode(list_of(1_800_000, b'\\xcb' + b'\\x90' * 8))", TAKEN,
    ),
    "texts that look like lists": (
        "codec.decode(list_of(5_000, b'\\xda\\x03\\xe8' + 'А'.encode() * 500))", TAKEN,
    ),
    "a promise of four billion": ("codec.decode(b'\\xdd\\xff\\xff\\xff\\xff')", REFUSED),
    "bytes that aren't there": ("codec.decode(b'\\xc6\\xff\\xff\\xff\\xff')", REFUSED),
    "levels without end": ("codec.decode(b'\\x91' * MAX_BYTES)", REFUSED),
    "extensions without end": ("codec.decode(nested_extensions(100_000))", REFUSED),
    "more than 16 MB": ("codec.decode(b'\\xc6\\x02\\x00\\x00\\x00' + bytes(1 << 25))", REFUSED),
    # Effects of a value on a writer.
    "a value in itself": ("codec.encode(own())", REFUSED),
    "a hundred thousand levels": ("codec.encode(deep(100_000))", REFUSED),
    "a text of 50 MB": ("codec.encode('x' * 50_000_000)", REFUSED),
    "two million lists": ("codec.encode([[] for _ in range(2_000_000)])", REFUSED),
    "a million fractions": ("codec.encode([n / 3 for n in range(1_000_000)])", TAKEN),
    "a bytearray behind a million": ("codec.encode([0.3] * 1_000_000 + [bytearray(1)])", TAKEN),
    "sets of many": ("codec.encode([{n} for n in range(300_000)])", TAKEN),
}  # fmt: skip


@pytest.mark.promise("P14")
@pytest.mark.promise("P21")
@only_where_bounded
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_hostile_value_is_decoded_or_rejected_within_memory_and_time_limits(name: str) -> None:
    case, expected = CASES[name]
    assert run_bounded(PREAMBLE, case) == expected
