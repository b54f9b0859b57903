"""The vectors of an item as the bytes of a column."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import Struct

from hitl_django.engine.store.ranking import Vector

#: How many numbers each vector has; they follow as 32-bit floats, the lowest byte first.
_HEAD = Struct("<I")


def encode_vectors(vectors: Sequence[Vector]) -> bytes:
    """Return vectors, which are of one length, as bytes; without any, none."""
    if not vectors:
        return b""
    return _HEAD.pack(len(vectors[0])) + b"".join(map(_order_bytes, vectors))


def decode_vectors(data: bytes) -> list[Vector]:
    """Return the vectors that these bytes are."""
    if not data:
        return []
    [length] = _HEAD.unpack_from(data)
    numbers = _order_bytes(array("f", data[_HEAD.size :]))
    return [numbers[at : at + length] for at in range(0, len(numbers), length)]


def _order_bytes(vector: Vector) -> Vector:
    """Return a vector with its bytes as they are stored, or what is stored as the machine has it.

    That is the same on most machines.
    """
    if sys.byteorder == "little":
        return vector
    turned = vector[:]
    turned.byteswap()
    return turned
