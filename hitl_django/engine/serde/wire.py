"""Measures encoded bytes without building the values."""

from __future__ import annotations

from .table import LOAD_LEAF

# Header byte → (bytes of a length field that follows, or of a fixed body).
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_CONTAINER = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_TRUE_NIL_FALSE = {0xC0, 0xC2, 0xC3}


def measure(data: bytes) -> tuple[int, int]:
    """Returns how deep the value nests and how many values it holds; ValueError if malformed.

    An extension that holds a value is a level of its own.
    """
    end = len(data)
    at = items = depth = 0
    open_counts = [1]  # values still to come, per open container
    while True:
        while not open_counts[-1]:
            open_counts.pop()
            if not open_counts:
                if at != end:
                    raise ValueError("there are bytes after the value")
                return depth, items
        if at >= end:
            raise ValueError("unexpected end")
        open_counts[-1] -= 1
        items += 1
        at, inside = _step(data, at)
        if inside is not None:
            open_counts.append(inside)
            depth = max(depth, len(open_counts) - 1)


def _step(data: bytes, at: int) -> tuple[int, int | None]:
    """Passes one header and what is not a value behind it; tells how many values it opens."""
    head = data[at]
    at += 1
    if head < 0x80 or head >= 0xE0 or head in _TRUE_NIL_FALSE:
        return at, None
    if head < 0xA0:
        return at, (head & 0x0F) * (2 if head < 0x90 else 1)
    if head < 0xC0:
        return at + (head & 0x1F), None
    if head in _FIXED:
        return at + _FIXED[head], None
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
        raise ValueError("a reserved byte")
    if at >= len(data):
        raise ValueError("unexpected end")
    is_leaf = data[at] in LOAD_LEAF or data[at] > 0x7F
    return (at + 1 + size, None) if is_leaf else (at + 1, 1)
