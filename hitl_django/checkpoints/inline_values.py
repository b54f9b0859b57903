"""Channel values that are stored in the row of each checkpoint because they are small.

For a counter, a flag, a name or the marker of an edge, a separate row with its index entries would
be many times larger than the value. If a state has at most ``MAX_SCALARS`` small values, each
checkpoint's row contains all of them. Each super-step therefore stores a limited amount of data. If
a state has more small values, each version of a small value has a separate row, like each version
of a larger value. Only changed values are then stored.

A short input is also stored in the checkpoint's row. The input isn't repeated in later rows,
because the first super-step consumes it.
"""

from __future__ import annotations

from typing import Any

from hitl_django.engine.constants import START
from hitl_django.engine.errors import CorruptPayloadError

from .codec import codec

MAX_SCALARS = 16
MAX_TEXT = 40  # The maximum number of characters of a text.
MAX_INPUT = 4  # The maximum number of scalars in an input.
#: The key for the number of values that have separate rows, if there are any. An emptied channel
#: also has a version, so only the number reveals missing rows.
APART = "apart"

_NUMBERS = frozenset({type(None), bool, float})


def is_scalar(value: Any) -> bool:
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
    """Return the small values of a state, or None if there are more than MAX_SCALARS of them."""
    if len(values) > 4 * MAX_SCALARS:
        return None  # The state has too many values to check.
    found = {
        channel: value
        for channel, value in values.items()
        if type(value) in _NUMBERS or is_short(channel, value)
    }
    return found if len(found) <= MAX_SCALARS else None


def pack(few: dict[str, Any], *, is_whole: bool) -> bytes:
    """Encode the small values of a checkpoint for a column of the checkpoint's row.

    ``is_whole`` is true if the state has no other values. The encoded bytes contain this flag, so
    that readers don't look for the values of other channels. The versions alone don't show whether
    there are other values, because a channel without a value has a version, too.
    """
    if is_whole:
        return codec.encode([few])
    return codec.encode(few) if few else b""


def unpack(held: bytes) -> tuple[dict[str, Any], bool]:
    """Decode the small values of a checkpoint, and whether the state has no other values."""
    found = codec.decode(held) if held else {}
    is_whole = type(found) is list and len(found) == 1
    values = found[0] if is_whole else found
    if type(values) is not dict:
        raise CorruptPayloadError("Stored checkpoint values are corrupt.")
    return values, is_whole
