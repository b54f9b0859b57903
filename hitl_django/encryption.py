"""The keys of ENCRYPTION_KEYS, and texts that are encrypted with them.

A column of text holds an encrypted one as an *envelope*: ``@hitl:e:`` and, in base64, what a key
ring makes of it. It is decrypted in the column alone that it was encrypted for. A text that is
stored as it is and happens to begin like an envelope has ``@hitl:p:`` before it, so that nobody can
write one that is taken for encrypted; JSON never begins so.
"""

from __future__ import annotations

import base64
from functools import cache

from hitl_django.conf import hitl
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import KeyRing

_MARK = "@hitl:"
_ENCRYPTED, _PLAIN = f"{_MARK}e:", f"{_MARK}p:"
#: Characters of an envelope from which its key is known.
ENVELOPE_HEAD = len(_ENCRYPTED) + 8


def find_key_ring() -> KeyRing | None:
    """Return what is encrypted with now; None where nothing is."""
    keys = hitl.ENCRYPTION_KEYS
    return _make_key_ring(tuple(keys)) if keys else None


@cache
def _make_key_ring(keys: tuple[str, ...]) -> KeyRing:
    return KeyRing(keys)


def get_key_ring() -> KeyRing:
    """Return what decrypts; CorruptPayloadError where there is no key."""
    ring = find_key_ring()
    if ring is None:
        raise CorruptPayloadError(
            "A stored payload is encrypted, but HITL['ENCRYPTION_KEYS'] is empty."
        )
    return ring


def encrypt_text(text: str, column: str) -> str:
    """Return a text as it is stored in a column, which is named by its table and itself."""
    ring = find_key_ring()
    if ring is not None:
        encrypted = ring.encrypt_bytes(text.encode(), column.encode())
        return _ENCRYPTED + base64.b64encode(encrypted).decode()
    return _PLAIN + text if text.startswith(_MARK) else text


def decrypt_text(stored: str, column: str) -> str:
    """Return the text that encrypt_text was given, or one stored before there was a key.

    CorruptPayloadError where it is damaged.
    """
    if not stored.startswith(_MARK):
        return stored
    if stored.startswith(_PLAIN):
        return stored[len(_PLAIN) :]
    if not is_envelope(stored):
        raise CorruptPayloadError("A stored payload is damaged: its envelope has no known kind.")
    return get_key_ring().decrypt_bytes(_open_envelope(stored), column.encode()).decode()


def is_envelope(stored: str) -> bool:
    """Return whether a stored text is encrypted."""
    return stored.startswith(_ENCRYPTED)


def is_envelope_current(stored: str, ring: KeyRing) -> bool:
    """Return whether an envelope, or its head, is of the key that encrypts now."""
    return ring.is_first_key(_open_envelope(stored[:ENVELOPE_HEAD]))


def _open_envelope(stored: str) -> bytes:
    try:
        return base64.b64decode(stored[len(_ENCRYPTED) :], validate=True)
    except ValueError as fault:
        raise CorruptPayloadError("Stored payload is corrupt: invalid base64.") from fault
