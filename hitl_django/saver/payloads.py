"""Values to columns and back: the codec's bytes beside their digest."""

from __future__ import annotations

from typing import Any

from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import Codec, digest

codec = Codec()


def pack(value: Any) -> tuple[bytes, str]:
    """Returns a value's bytes and their digest."""
    data = codec.encode(value)
    return data, digest(data)


def intact(data: Any, stored: str, what: str) -> bytes:
    """Returns the bytes of a column; CorruptPayloadError if the digest isn't theirs."""
    found = bytes(data)
    if digest(found) != stored:
        raise CorruptPayloadError(f"The stored {what} is damaged: its digest doesn't match.")
    return found


def unpack(data: Any, stored: str, what: str) -> Any:
    """Returns the value that was packed, or says why not."""
    return codec.decode(intact(data, stored, what))


def digest_value(value: Any) -> str:
    """Names a value by the digest of its bytes; raises where it can't be stored."""
    return pack(value)[1]
