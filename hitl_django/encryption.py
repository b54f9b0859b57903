"""Encryption of text columns with the keys in ENCRYPTION_KEYS.

An encrypted text is stored as an *envelope*: ``@hitl:e:`` followed by the encrypted bytes in
base64. An envelope can be decrypted only for the column for which it was encrypted. A plain text
that begins like an envelope is stored after ``@hitl:p:``, so that users can't forge envelopes. JSON
never begins with ``@``.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING

from hitl_django.conf import hitl
from hitl_django.engine.errors import CorruptPayloadError

if TYPE_CHECKING:
    from hitl_django.engine.serde import KeyRing

_MARK = "@hitl:"
_ENCRYPTED, _PLAIN = f"{_MARK}e:", f"{_MARK}p:"
#: The number of characters of an envelope that are sufficient to identify its key.
ENVELOPE_HEAD = len(_ENCRYPTED) + 8


def find_key_ring() -> KeyRing | None:
    """Return a key ring with the keys in ENCRYPTION_KEYS, or None if there are no keys."""
    keys = hitl.ENCRYPTION_KEYS
    return _make_key_ring(tuple(keys)) if keys else None


@cache
def _make_key_ring(keys: tuple[str, ...]) -> KeyRing:
    from hitl_django.engine.serde import KeyRing

    return KeyRing(keys)


def get_key_ring() -> KeyRing:
    """Return a key ring with the keys in ENCRYPTION_KEYS.

    Raises:
        CorruptPayloadError: ENCRYPTION_KEYS contains no key.
    """
    ring = find_key_ring()
    if ring is None:
        raise CorruptPayloadError(
            "A stored payload is encrypted, but HITL['ENCRYPTION_KEYS'] is empty."
        )
    return ring


def encrypt_text(text: str, column: str) -> str:
    """Return the stored form of a text.

    ``column`` is the name of the text's column, in the form ``table.column``.
    """
    ring = find_key_ring()
    if ring is not None:
        encrypted = ring.encrypt_bytes(text.encode(), column.encode())
        return _ENCRYPTED + base64.b64encode(encrypted).decode()
    return _PLAIN + text if text.startswith(_MARK) else text


def decrypt_text(stored: str, column: str) -> str:
    """Return the original text. ``stored`` may be encrypted or not.

    Raises:
        CorruptPayloadError: the stored text is damaged, or its key is missing.
    """
    if not stored.startswith(_MARK):
        return stored
    if stored.startswith(_PLAIN):
        return stored[len(_PLAIN) :]
    if not is_envelope(stored):
        raise CorruptPayloadError("A stored payload is damaged: its envelope has no known kind.")
    return get_key_ring().decrypt_bytes(_open_envelope(stored), column.encode()).decode()


def is_envelope(stored: str) -> bool:
    """Return whether a stored text is an envelope, i.e. encrypted."""
    return stored.startswith(_ENCRYPTED)


def is_envelope_current(stored: str, ring: KeyRing) -> bool:
    """Return whether an envelope (an encrypted text) uses the first key of ENCRYPTION_KEYS.

    The first bytes of an envelope are sufficient for this check.
    """
    return ring.is_first_key(_open_envelope(stored[:ENVELOPE_HEAD]))


def _open_envelope(stored: str) -> bytes:
    try:
        return base64.b64decode(stored[len(_ENCRYPTED) :], validate=True)
    except ValueError as fault:
        raise CorruptPayloadError("Stored payload is corrupt: invalid base64.") from fault
