"""Encoding of vectors as bytes for a database column."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import Struct

from hitl_django.engine.store.ranking import Vector

#: Number of values per vector. The values follow as little-endian 32-bit floats.
_HEAD = Struct("<I")


def encode_vectors(vectors: Sequence[Vector]) -> bytes:
    """Return vectors of equal length as bytes, or ``b""`` for an empty list."""
    if not vectors:
        return b""
    return _HEAD.pack(len(vectors[0])) + b"".join(map(_order_bytes, vectors))


def decode_vectors(data: bytes) -> list[Vector]:
    if not data:
        return []
    [length] = _HEAD.unpack_from(data)
    numbers = _order_bytes(array("f", data[_HEAD.size :]))
    return [numbers[at : at + length] for at in range(0, len(numbers), length)]


def _order_bytes(vector: Vector) -> Vector:
    """Swap the bytes of a vector if the machine is big-endian."""
    if sys.byteorder == "little":
        return vector
    turned = vector[:]
    turned.byteswap()
    return turned
