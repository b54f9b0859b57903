"""The forms in which serializers and ciphers come, as LangGraph's programs write them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class UntypedSerializerProtocol(Protocol):
    """A serializer whose bytes say all: pickle and json have this form."""

    def dumps(self, obj: Any) -> bytes:
        """Return the bytes of a value."""

    def loads(self, data: bytes) -> Any:
        """Return the value of bytes."""


@runtime_checkable
class SerializerProtocol(Protocol):
    """A serializer that tells beside the bytes what kind they are."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value's kind and its bytes."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of a kind and bytes."""


class CipherProtocol(Protocol):
    """What encrypts bytes, and decrypts those that it encrypted under a name."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return what was encrypted by the cipher of this name."""


class SerializerCompat(SerializerProtocol):
    """An untyped serializer in the typed form; the kind is the name of the value's class."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the name of the value's class, and its bytes."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that dumps_typed was given."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(
    serde: SerializerProtocol | UntypedSerializerProtocol,
) -> SerializerProtocol:
    """Return a serializer in the typed form: itself, where it has that."""
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)
