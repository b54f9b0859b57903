"""Rows whose bytes are encrypted: values and writes, where ENCRYPTION_KEYS has a key.

What is encrypted are the values of channels and what tasks wrote. What finds rows and tells what
they continue stays readable: ids, names of channels and nodes, versions, metadata, and the head of
a list's delta. An encrypted row begins (behind such a head) with 0xC1, which no msgpack begins
with, and "E". Its digest is that of the encrypted bytes; that of the value, which would let anybody
try what the value may be, is encrypted with it.
"""

from __future__ import annotations

from hitl_django.encryption import get_key_ring
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import KeyRing, digest

_MARK = b"\xc1E"
_DIGEST_SIZE = 16


def is_encrypted(data: bytes) -> bool:
    """Return whether bytes are encrypted ones."""
    return data[:2] == _MARK


def is_under_first_key(data: bytes, ring: KeyRing) -> bool:
    """Return whether encrypted bytes, or the first few, are of the key that encrypts now."""
    return ring.is_first_key(data[len(_MARK) :])


def encrypt_column(data: bytes, ring: KeyRing) -> bytes:
    """Return a column's bytes as they are stored; none stay none."""
    return _MARK + ring.encrypt_bytes(data) if data else data


def decrypt_column(data: bytes) -> bytes:
    """Return the bytes of a column, decrypted where they have to be."""
    return _decrypt(data, b"") if is_encrypted(data) else data


def encrypt_row(data: bytes, its_digest: str, head: int, ring: KeyRing) -> tuple[bytes, str]:
    """Return bytes and their digest as they are stored; the first ``head`` bytes are readable."""
    clear = data[:head]
    encrypted = clear + _MARK + ring.encrypt_bytes(bytes.fromhex(its_digest) + data[head:], clear)
    return encrypted, digest(encrypted)


def decrypt_row(data: bytes, stored: str, head: int, what: str) -> tuple[bytes, str]:
    """Return the bytes that encrypt_row was given, and their digest; those of a plain row as is.

    CorruptPayloadError where the stored digest isn't theirs.
    """
    if data[head : head + 2] != _MARK:
        return data, stored
    if digest(data) != stored:
        raise CorruptPayloadError(f"Stored {what} is corrupt: digest mismatch.")
    clear = data[:head]
    decrypted = _decrypt(data[head:], clear)
    return clear + decrypted[_DIGEST_SIZE:], decrypted[:_DIGEST_SIZE].hex()


def _decrypt(encrypted: bytes, beside: bytes) -> bytes:
    return get_key_ring().decrypt_bytes(encrypted[len(_MARK) :], beside)
