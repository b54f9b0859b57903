"""Channel values that are small enough to be stored in every checkpoint's row.

For a counter, a flag, a name or an edge's marker, a separate row with its index entries would be
many times larger than the value. If a state has at most ``MAX_SCALARS`` of them, each checkpoint
contains all of them, so a super-step stores a limited amount. If there are more, they have rows by
version like other values, and only changes are stored.

A short input is also stored this way. It isn't repeated, since the first step consumes it.
"""

from __future__ import annotations

from typing import Any

from hitl_django.engine.constants import START
from hitl_django.engine.errors import CorruptPayloadError

from .codec import codec

MAX_SCALARS = 16
MAX_TEXT = 40  # characters of a text
MAX_INPUT = 4  # scalars in an input
#: Key for the number of values with rows of their own, if there are any. An emptied channel also
#: has a version, so the number reveals missing rows.
APART = "apart"

_NUMBERS = frozenset({type(None), bool, float})


def is_scalar(value: Any) -> bool:
    """Return whether a value is a number, a short text or None."""
    cls = type(value)
    if cls is int:
        return -(1 << 63) <= value < 1 << 64
    return cls in _NUMBERS or (cls is str and len(value) <= MAX_TEXT)


def is_short(channel: str, value: Any) -> bool:
    """Return whether a channel's value may be stored in a checkpoint's row."""
    if channel == START and type(value) is dict:
        return len(value) <= MAX_INPUT and all(map(is_scalar, (*value, *value.values())))
    return is_scalar(value)


def select_scalars(values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the short values of a state; None if there are too many."""
    if len(values) > 4 * MAX_SCALARS:
        return None  # too many to check
    found = {channel: value for channel, value in values.items() if is_short(channel, value)}
    return found if len(found) <= MAX_SCALARS else None


def pack(few: dict[str, Any], *, is_whole: bool) -> bytes:
    """Return a checkpoint's scalars as a column; ``is_whole`` if the state has no other values.

    In this case no other rows are read, although a channel without a value also has a version.
    """
    if is_whole:
        return codec.encode([few])
    return codec.encode(few) if few else b""


def unpack(held: bytes) -> tuple[dict[str, Any], bool]:
    """Return a checkpoint's scalars, and whether the state has no other values."""
    found = codec.decode(held) if held else {}
    is_whole = type(found) is list and len(found) == 1
    values = found[0] if is_whole else found
    if type(values) is not dict:
        raise CorruptPayloadError("Stored checkpoint values are corrupt.")
    return values, is_whole
