"""Measurement of encoded values without decoding."""

from __future__ import annotations

import struct
from typing import NamedTuple

from .extension_codes import LOAD_LEAF

# Maps a header byte to the number of bytes that follow, as a fixed body or a length field.
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_CONTAINER = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_TRUE_NIL_FALSE = {0xC0, 0xC2, 0xC3}
# Maps a header byte to the total bytes of a value without children whose size the header
# determines, or to 0.
_WHOLE = [
    1 if head < 0x80 or head >= 0xE0 or head in _TRUE_NIL_FALSE
    else 1 + (head & 0x1F) if 0xA0 <= head < 0xC0
    else 1 + _FIXED.get(head, -1)
    for head in range(256)
]  # fmt: skip


#: Bytes that are not headers of lists, dicts or extensions.
_NOT_OPENING = bytes(
    {*range(256)} - {*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)}
)


class EncodedSize(NamedTuple):
    """The nesting depth of a value and the number of its containers.

    Containers are lists, dicts and extensions.
    """

    depth: int
    containers: int


def count_possible_containers(data: bytes) -> int:
    """Return an upper limit for the number of lists, dicts and extensions in encoded bytes.

    The actual number may be smaller, because other data may contain the header bytes of containers.
    """
    return len(data.translate(None, _NOT_OPENING))


class Extent(NamedTuple):
    """The size of an encoded list or dict: the numbers of entries, bytes and containers.

    The number of containers is an upper limit. An entry is an item of a list, or a key and value of
    a dict. The encoded bytes consist of a header with the number of entries, then the entries. A
    longer value is created by appending entries and replacing the header.
    """

    is_dict: bool
    length: int
    size: int
    containers: int

    @property
    def head(self) -> bytes:
        """The header before the entries in its shortest form, as written by ormsgpack."""
        if self.length < 16:
            return bytes([(0x80 if self.is_dict else 0x90) | self.length])
        if self.length < 1 << 16:
            return struct.pack(">BH", 0xDE if self.is_dict else 0xDC, self.length)
        return struct.pack(">BI", 0xDF if self.is_dict else 0xDD, self.length)

    def add(self, other: Extent) -> Extent:
        """Return the extent of a value that has the entries of this value and of ``other``.

        Both values must be lists, or both dicts.
        """
        return Extent(
            self.is_dict,
            self.length + other.length,
            self.size + other.size,
            self.containers + other.containers,
        )


LONGEST_HEAD = 5  # bytes
_HEADS = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}


def has_entries(data: bytes) -> bool:
    """Return whether an encoded value is a list, or a dict with str keys."""
    return 0x80 <= data[0] < 0xA0 or data[0] in _HEADS


def is_dict(data: bytes) -> bool:
    """Return whether an encoded list or dict is a dict."""
    return data[0] < 0x90 or data[0] > 0xDD


def head_length(data: bytes) -> int:
    """Return the number of header bytes before the entries of an encoded list or dict."""
    return _HEADS.get(data[0], 1)


def split_entries(data: bytes, start: int = 0) -> tuple[bytes, bytes]:
    """Return the header and the entries of the encoded list or dict at position ``start``."""
    begin = start + _HEADS.get(data[start], 1)
    return data[start:begin], data[begin:]


def find_extent(data: bytes, entries: bytes = b"") -> Extent:
    """Return the extent (the size) of an encoded list or dict.

    ``entries`` are the encoded entries if they are not part of ``data``.
    """
    begin = head_length(data)
    length = int.from_bytes(data[1:begin], "big") if begin > 1 else data[0] & 0x0F
    size = len(data) - begin + len(entries)
    containers = count_possible_containers(data) + count_possible_containers(entries)
    return Extent(is_dict(data), length, size, containers)


def measure(data: bytes, most: int | None = None) -> EncodedSize:
    """Return the nesting depth of an encoded value, and the number of its containers.

    An extension that contains a value counts as a level. Measuring stops after ``most`` containers.

    Raises:
        ValueError: the bytes are malformed.
    """
    limit = len(data) if most is None else most
    end = len(data)
    at = containers = depth = 0
    left = 1  # The number of remaining values of this container and of the enclosing containers.
    around: list[int] = []
    inside: int | None
    while True:
        while not left:
            if not around:
                if at != end:
                    raise ValueError("trailing bytes")
                return EncodedSize(depth, containers)
            left = around.pop()
        if at >= end:
            raise ValueError("unexpected end")
        left -= 1
        head = data[at]
        if size := _WHOLE[head]:
            at += size
            continue
        if head < 0xA0:
            at, inside = at + 1, (head & 0x0F) * (2 if head < 0x90 else 1)
            containers += 1
        else:
            containers += head not in _SIZED
            at, inside = _step(data, at, head)
        if inside is not None:
            around.append(left)
            left = inside
            depth = max(depth, len(around))
        if containers > limit:
            return EncodedSize(depth, containers)


def _step(data: bytes, at: int, head: int) -> tuple[int, int | None]:
    """Return the position after a multi-byte header, and the number of values that follow it.

    The header starts at the position ``at`` with the byte ``head``. The values are those of the
    list, dict or extension that the header begins. If the header begins an item without nested
    values, such as a text, return the position after the whole item, and None as the number.
    """
    at += 1
    if head in _SIZED:
        width = _SIZED[head]
        return at + width + int.from_bytes(data[at : at + width], "big"), None
    if head in _CONTAINER:
        width, each = _CONTAINER[head]
        return at + width, int.from_bytes(data[at : at + width], "big") * each
    if head in _EXTENSION:
        width = _EXTENSION[head]
        size = int.from_bytes(data[at : at + width], "big")
        at += width
    elif 0xD4 <= head <= 0xD8:
        size = 1 << (head - 0xD4)
    else:
        raise ValueError("reserved byte")
    if at >= len(data):
        raise ValueError("unexpected end")
    is_leaf = data[at] in LOAD_LEAF or data[at] > 0x7F
    return (at + 1 + size, None) if is_leaf else (at + 1, 1)
