"""Encryption of stored values and writes, if ENCRYPTION_KEYS contains a key.

The values of channels and the writes of tasks are encrypted. Data for finding and linking rows is
not encrypted: ids, names of channels and nodes, versions, metadata, and the head of a delta (see
``value_deltas``). An encrypted row contains 0xC1 and "E" after the unencrypted head. No msgpack
value begins with 0xC1.

The stored digest is the digest of the encrypted bytes. The digest of the original value is
encrypted together with the value, because attackers could use this digest to guess the value.
"""

from __future__ import annotations

from hitl_django.encryption import get_key_ring
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import KeyRing, digest

_MARK = b"\xc1E"
_DIGEST_SIZE = 16


def is_encrypted(data: bytes) -> bool:
    """Return whether the bytes are encrypted."""
    return data[:2] == _MARK


def is_under_first_key(data: bytes, ring: KeyRing) -> bool:
    """Return whether the bytes are encrypted with the first key of the key ring.

    ``data`` can be a prefix of the bytes.
    """
    return ring.is_first_key(data[len(_MARK) :])


def encrypt_column(data: bytes, ring: KeyRing) -> bytes:
    """Return the encrypted bytes of a column. Empty bytes are not encrypted."""
    return _MARK + ring.encrypt_bytes(data) if data else data


def decrypt_column(data: bytes) -> bytes:
    """Return the decrypted bytes of a column, or the bytes themselves if they aren't encrypted."""
    return _decrypt(data, b"") if is_encrypted(data) else data


def encrypt_row(data: bytes, its_digest: str, head: int, ring: KeyRing) -> tuple[bytes, str]:
    """Encrypt the bytes of a row, except the first ``head`` bytes.

    ``its_digest`` is the digest of the original bytes. Return the bytes to store and their digest.
    """
    clear = data[:head]
    encrypted = clear + _MARK + ring.encrypt_bytes(bytes.fromhex(its_digest) + data[head:], clear)
    return encrypted, digest(encrypted)


def decrypt_row(data: bytes, stored: str, head: int, what: str) -> tuple[bytes, str]:
    """Return the original bytes of a row and their digest.

    ``stored`` is the digest of the stored bytes. The first ``head`` bytes are never encrypted.
    ``what`` names the row in the error message. Rows that aren't encrypted are returned unchanged.

    Raises:
        CorruptPayloadError: the digest of the stored bytes differs from ``stored``.
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
