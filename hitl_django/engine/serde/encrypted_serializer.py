"""A serializer that encrypts the output of another serializer."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ..errors import CorruptPayloadError
from .serializer_protocols import CipherProtocol, SerializerProtocol
from .typed_serializer import JsonPlusSerializer

_KEY = "LANGGRAPH_AES_KEY"
_NONCE_SIZE = _TAG_SIZE = 16


class EncryptedSerializer(SerializerProtocol):
    """A serializer that encrypts the bytes of ``serde`` with ``cipher``.

    The bytes are returned with a text such as ``msgpack+aes``: the names of the encoding and the
    cipher. If the text given to ``loads_typed`` has no cipher, the bytes were stored before
    encryption was enabled, and are loaded without decryption.
    """

    def __init__(self, cipher: CipherProtocol, serde: SerializerProtocol | None = None) -> None:
        self.cipher = cipher
        self.serde = JsonPlusSerializer() if serde is None else serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a text such as ``msgpack+aes``, and the encrypted bytes.

        The text consists of the names of the encoding and the cipher.
        """
        kind, data = self.serde.dumps_typed(obj)
        name, encrypted = self.cipher.encrypt(data)
        return f"{kind}+{name}", encrypted

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value encoded as the pair ``data``: the name of the encoding, and bytes."""
        kind, stored = data
        kind, plus, name = kind.partition("+")
        if plus:
            stored = self.cipher.decrypt(name, stored)
        return self.serde.loads_typed((kind, stored))

    @classmethod
    def from_pycryptodome_aes(
        cls, serde: SerializerProtocol | None = None, *, key: bytes | None = None, **options: Any
    ) -> EncryptedSerializer:
        """Return a serializer that encrypts with AES from the library pycryptodome.

        ``key`` has 16, 24 or 32 bytes. By default, it's the environment variable
        ``LANGGRAPH_AES_KEY``. ``options`` are passed to ``Crypto.Cipher.AES.new``. The mode must be
        authenticated. The default mode is EAX.

        Raises:
            ValueError: the key is missing or has another length.
        """
        if key is None:
            key = os.environ.get(_KEY, "").encode()
            if not key:
                raise ValueError(f"No key: pass key=… or set {_KEY}.")
            if len(key) not in (16, 24, 32):
                raise ValueError(f"{_KEY} has {len(key)} bytes; it must have 16, 24 or 32.")
        return cls(PycryptodomeCipher(key, options), serde)


class PycryptodomeCipher(CipherProtocol):
    """AES encryption with pycryptodome.

    The bytes returned by ``encrypt`` consist of the nonce, the authentication tag and the encrypted
    bytes.
    """

    def __init__(self, key: bytes, options: dict[str, Any]) -> None:
        try:
            self._aes = import_module("Crypto.Cipher.AES")
        except ImportError:
            raise ImportError("pycryptodome is not installed: pip install pycryptodome") from None
        self._key = key
        self._options = {**options, "mode": options.get("mode") or self._aes.MODE_EAX}

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name "aes", and the encrypted bytes with a new nonce."""
        cipher = self._aes.new(self._key, **self._options)
        encrypted, tag = cipher.encrypt_and_digest(plaintext)
        return "aes", cipher.nonce + tag + encrypted

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the decrypted bytes.

        Raises:
            CorruptPayloadError: the key is wrong, or the bytes were changed after encryption.
        """
        if ciphername != "aes":
            raise CorruptPayloadError(f"Stored payload was encrypted with {ciphername!r}, not aes.")
        nonce, rest = ciphertext[:_NONCE_SIZE], ciphertext[_NONCE_SIZE:]
        try:
            cipher = self._aes.new(self._key, **self._options, nonce=nonce)
            plain: bytes = cipher.decrypt_and_verify(rest[_TAG_SIZE:], rest[:_TAG_SIZE])
        except ValueError as fault:
            raise CorruptPayloadError(
                "Can't decrypt stored payload: wrong key or corrupt data."
            ) from fault
        return plain
