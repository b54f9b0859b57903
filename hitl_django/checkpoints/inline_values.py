"""Channel values so small that every checkpoint holds them in its own row.

A counter, a flag, a name, the trace of an edge: a row of its own, with its place in an index, would
be many times what such a value takes. So as long as a state has ``FEW`` of them at the most, each
checkpoint repeats all; what a super-step stores stays bounded. With more, they have rows by version
like any other value, and only what changes is stored.

A short input stands there as well. Nothing is repeated of it: the first step takes it away.
"""

from __future__ import annotations

from typing import Any

from hitl_django.engine.constants import START
from hitl_django.engine.errors import CorruptPayloadError

from .codec import codec

MAX_SCALARS = 16
MAX_TEXT = 40  # characters of a text
MAX_INPUT = 4  # scalars in an input
#: Where a checkpoint says how many of its values have rows of their own, if any do. A channel that
#: was emptied has a version like any other, so nothing else tells it from one whose row is gone.
APART = "apart"

_NUMBERS = frozenset({type(None), bool, float})


def is_scalar(value: Any) -> bool:
    """Return whether a value is a number, a short text or None."""
    cls = type(value)
    if cls is int:
        return -(1 << 63) <= value < 1 << 64
    return cls in _NUMBERS or (cls is str and len(value) <= MAX_TEXT)


def is_short(channel: str, value: Any) -> bool:
    """Return whether a channel's value may stand in a checkpoint's own row."""
    if channel == START and type(value) is dict:
        return len(value) <= MAX_INPUT and all(map(is_scalar, (*value, *value.values())))
    return is_scalar(value)


def select_scalars(values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the short values of a state; None where there are too many to repeat."""
    if len(values) > 4 * MAX_SCALARS:
        return None  # not worth a look
    found = {channel: value for channel, value in values.items() if is_short(channel, value)}
    return found if len(found) <= MAX_SCALARS else None


def pack(few: dict[str, Any], *, is_whole: bool) -> bytes:
    """Return a checkpoint's scalars as its column; ``is_whole`` if the state has nothing else.

    Then nobody has to look for more: a channel without a value has a version like any other.
    """
    if is_whole:
        return codec.encode([few])
    return codec.encode(few) if few else b""


def unpack(held: bytes) -> tuple[dict[str, Any], bool]:
    """Return a checkpoint's scalars, and whether they are known to be all of its values."""
    found = codec.decode(held) if held else {}
    is_whole = type(found) is list and len(found) == 1
    values = found[0] if is_whole else found
    if type(values) is not dict:
        raise CorruptPayloadError("Stored checkpoint values are corrupt.")
    return values, is_whole
