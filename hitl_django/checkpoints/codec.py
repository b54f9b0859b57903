"""Encoding of values to bytes with a digest."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from hitl_django.engine.errors import CorruptPayloadError, PayloadError
from hitl_django.engine.savers.shared_values import SharedValues
from hitl_django.engine.serde import Codec, digest

from .encrypted_rows import decrypt_row

codec = Codec()


def pack(value: Any) -> tuple[bytes, str]:
    """Return the encoded bytes of a value, and the digest of these bytes."""
    data = codec.encode(value)
    return data, digest(data)


def pack_channel(channel: str, value: Any, shared: SharedValues | None = None) -> bytes:
    """Return the encoded bytes of a channel's value.

    If the value can't be encoded, the error message contains the path of the invalid part. The path
    starts with the channel's name.
    """
    try:
        return codec.encode(value) if shared is None else shared.encode(value)
    except PayloadError:
        codec.encode({channel: value})
        raise


def pack_writes(writes: Sequence[tuple[str, Any]], shared: SharedValues | None = None) -> bytes:
    """Return encoded (channel, value) pairs.

    If a value can't be encoded, the error names its channel.
    """
    pairs = [[channel, value] for channel, value in writes]
    try:
        return codec.encode(pairs) if shared is None else b"".join(shared.encode_writes(pairs))
    except PayloadError:
        for channel, value in writes:
            pack_channel(channel, value)
        raise


def verify(data: Any, stored: str, what: str) -> bytes:
    """Return the decrypted bytes of a row.

    ``what`` names the row in the error message.

    Raises:
        CorruptPayloadError: the digest of the row's bytes differs from ``stored``.
    """
    found, stored = decrypt_row(bytes(data), stored, 0, what)
    if digest(found) != stored:
        raise CorruptPayloadError(f"Stored {what} is corrupt: digest mismatch.")
    return found


def unpack(data: Any, stored: str, what: str) -> Any:
    """Return the value that ``pack`` has encoded. ``what`` names the row in the error message.

    Raises:
        CorruptPayloadError: the digest of the bytes differs from ``stored``.
    """
    return codec.decode(verify(data, stored, what))


def pack_text(value: Any) -> str:
    """Encode a value to base64, for storage in a text column."""
    return base64.b64encode(codec.encode(value)).decode()


def unpack_text(text: str, stored: str, what: str) -> Any:
    """Return the value that ``pack_text`` has encoded.

    ``stored`` is the digest of the encoded bytes. ``what`` names the row in the error message.

    Raises:
        CorruptPayloadError: the text is damaged.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as fault:
        raise CorruptPayloadError(f"Stored {what} is corrupt: invalid base64.") from fault
    return unpack(data, stored, what)


def digest_value(value: Any) -> str:
    return pack(value)[1]
