"""Interfaces of serializers and ciphers, compatible with LangGraph's interfaces."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class UntypedSerializerProtocol(Protocol):
    """A serializer whose bytes identify the type of the value, such as ``pickle`` or ``json``."""

    def dumps(self, obj: Any) -> bytes:
        """Return the bytes of a value."""

    def loads(self, data: bytes) -> Any:
        """Return the value encoded in the bytes."""


@runtime_checkable
class SerializerProtocol(Protocol):
    """A serializer that returns the encoded bytes together with the name of the encoding."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the name of the encoding and the encoded bytes of a value."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value encoded as the pair ``data``: the name of the encoding, and bytes."""


class CipherProtocol(Protocol):
    """The interface of a cipher. ``encrypt`` returns the cipher's name with the encrypted bytes."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the decrypted bytes."""


class SerializerCompat(SerializerProtocol):
    """An adapter that provides ``dumps_typed`` and ``loads_typed`` for a serializer without them.

    ``dumps_typed`` returns the name of the value's class in place of the name of an encoding.
    """

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the name of the value's class, and its bytes."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value encoded as the pair ``data``: the name of its class, and the bytes."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(
    serde: SerializerProtocol | UntypedSerializerProtocol,
) -> SerializerProtocol:
    """Return ``serde`` if it has the methods ``dumps_typed`` and ``loads_typed``.

    Otherwise, return an adapter that provides these methods and calls ``serde``.
    """
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)
