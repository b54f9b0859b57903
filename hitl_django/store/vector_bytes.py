"""The vectors of an item as the bytes of a column."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import Struct

from hitl_django.engine.store.ranking import Vector

#: How many numbers each vector has; they follow as 32-bit floats, the lowest byte first.
_HEAD = Struct("<I")
_NUMBER = 4


def encode_vectors(vectors: Sequence[Vector]) -> bytes:
    """Returns vectors, which are of one length, as bytes; without any, none."""
    if not vectors:
        return b""
    return _HEAD.pack(len(vectors[0])) + b"".join(map(_swap_bytes, vectors))


def decode_vectors(data: bytes) -> list[Vector]:
    """Returns the vectors that these bytes are."""
    if not data:
        return []
    [length] = _HEAD.unpack_from(data)
    size = max(length * _NUMBER, 1)
    parts = (data[at : at + size] for at in range(_HEAD.size, len(data), size))
    return [array("f", _swap_bytes(array("f", part))) for part in parts]


def _swap_bytes(vector: Vector) -> bytes:
    """Returns a vector's bytes in the stored order, or stored bytes in the machine's."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()
