"""Encryption keys for stored bytes, using the library cryptography."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..errors import CorruptPayloadError
from ..extras import require_extra
from .serializer_protocols import CipherProtocol

NAME = "aes-256-gcm"
_KEY_SIZE = 32
_ID_SIZE, _NONCE_SIZE = 4, 12


class KeyRing(CipherProtocol):
    """A cipher that encrypts with its first key and decrypts with any of its keys.

    A key is 32 bytes in base64, as returned by ``Fernet.generate_key()``. Encrypted bytes use
    AES-GCM with a random nonce. The encrypted bytes start with the first bytes of the key's hash,
    which identify the key without revealing the key.

    Raises:
        ValueError: a key is invalid, or no key is given.
        MissingExtraError: cryptography isn't installed.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        with require_extra("encryption"):
            self._aead = import_module("cryptography.hazmat.primitives.ciphers.aead")
            self._invalid = import_module("cryptography.exceptions").InvalidTag
        self._keys = {name: self._aead.AESGCM(key) for name, key in map(_read_key, keys)}
        if not self._keys:
            raise ValueError("No encryption key.")
        self._first = next(iter(self._keys))

    def encrypt_bytes(self, data: bytes, beside: bytes = b"") -> bytes:
        """Return the encrypted bytes.

        ``beside`` are authenticated together with ``data``, but not stored in the result.
        """
        nonce = os.urandom(_NONCE_SIZE)
        encrypted: bytes = self._keys[self._first].encrypt(nonce, data, beside)
        return self._first + nonce + encrypted

    def decrypt_bytes(self, encrypted: bytes, beside: bytes = b"") -> bytes:
        """Return the decrypted bytes. ``beside`` must be the same bytes as for ``encrypt_bytes``.

        Raises:
            CorruptPayloadError: the key is missing, ``beside`` differs, or the bytes were changed.
        """
        name, rest = encrypted[:_ID_SIZE], encrypted[_ID_SIZE:]
        key: Any = self._keys.get(name)
        if key is None:
            raise CorruptPayloadError(
                "Stored payload was encrypted with a key that is not configured."
            )
        try:
            data: bytes = key.decrypt(rest[:_NONCE_SIZE], rest[_NONCE_SIZE:], beside)
        except (self._invalid, ValueError) as fault:
            raise CorruptPayloadError("Can't decrypt stored payload: corrupt data.") from (fault)
        return data

    def is_first_key(self, encrypted: bytes) -> bool:
        """Return whether bytes were encrypted with the first key.

        A prefix of the bytes is sufficient.
        """
        return encrypted[:_ID_SIZE] == self._first

    # The methods below implement the interface of a cipher for EncryptedSerializer.

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return NAME, self.encrypt_bytes(plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the decrypted bytes. ``ciphername`` is ignored.

        Raises:
            CorruptPayloadError: the key is missing, or the bytes were changed after encryption.
        """
        if ciphername != NAME:
            raise CorruptPayloadError(
                f"Stored payload was encrypted with {ciphername!r}, not {NAME}."
            )
        return self.decrypt_bytes(ciphertext)


def _read_key(text: str) -> tuple[bytes, bytes]:
    try:
        key = base64.urlsafe_b64decode(text.encode("ascii"))
    except (AttributeError, ValueError, binascii.Error):
        key = b""
    if len(key) != _KEY_SIZE:
        raise ValueError(f"A key must be {_KEY_SIZE} bytes, base64-encoded.")
    return hashlib.sha256(b"hitl_django key " + key).digest()[:_ID_SIZE], key
