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
    """A serializer that returns bytes together with a kind, which is the name of the encoding."""

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
    """A typed serializer that calls an untyped one. The kind is the name of the value's class."""

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
    """Return ``serde`` if it is a typed serializer.

    Otherwise, return an adapter that makes it typed.
    """
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)
