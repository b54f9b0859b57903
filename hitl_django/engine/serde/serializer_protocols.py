"""Interfaces of serializers and ciphers, compatible with LangGraph."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class UntypedSerializerProtocol(Protocol):
    """A serializer whose bytes include the type, such as pickle and json."""

    def dumps(self, obj: Any) -> bytes:
        """Return the bytes of a value."""

    def loads(self, data: bytes) -> Any:
        """Return the value encoded in the bytes."""


@runtime_checkable
class SerializerProtocol(Protocol):
    """A serializer that returns the kind of the bytes separately."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value's kind and its bytes."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of a kind and its bytes."""


class CipherProtocol(Protocol):
    """A cipher that encrypts bytes, and decrypts them by the cipher's name."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the decrypted bytes."""


class SerializerCompat(SerializerProtocol):
    """An adapter for an untyped serializer; the kind is the name of the value's class."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the name of the value's class, and its bytes."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value given to dumps_typed."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(
    serde: SerializerProtocol | UntypedSerializerProtocol,
) -> SerializerProtocol:
    """Return a typed serializer: the given one, or an adapter for it."""
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)
