"""A caller's serializer in the form of the codec, for savers that are given one."""

from __future__ import annotations

from typing import Any

import ormsgpack

from ..errors import PayloadError, UnserializableError
from .codec import Codec
from .serializer_protocols import SerializerProtocol, maybe_add_typed_methods
from .typed_serializer import JsonPlusSerializer


class SerializerCodec:
    """A serializer in the form of a codec: the kind stands within the bytes."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde

    def encode(self, value: Any) -> bytes:
        """Return the bytes of ``value``; UnserializableError if the serializer takes it not."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except PayloadError:
            raise
        except Exception as fault:
            raise UnserializableError(
                f"Can't store $: {type(self.serde).__name__} raised {type(fault).__name__}.",
                "$",
            ) from fault
        return ormsgpack.packb([kind, bytes(data)])

    def decode(self, data: bytes) -> Any:
        """Return the value that ``data`` was encoded from."""
        kind, stored = ormsgpack.unpackb(data)
        return self.serde.loads_typed((kind, stored))


def find_codec(serde: Any) -> Codec | SerializerCodec:
    """Return the codec that stores as a serializer does: itself, where it is one of ours."""
    cls = type(serde)
    if isinstance(serde, Codec) and (
        not isinstance(serde, JsonPlusSerializer)
        or (cls.dumps_typed, cls.loads_typed)
        == (JsonPlusSerializer.dumps_typed, JsonPlusSerializer.loads_typed)
    ):
        return serde
    return SerializerCodec(maybe_add_typed_methods(serde))
